"""What Always remembers: the words of the program, never of a carrier, never more than was read."""

from __future__ import annotations

import pytest

from cage.cage_policy import base_tokens, covers, is_project_runner, key_of, keys, read

from .conftest import House, entries, evil_fsmonitor

KEYS = {  # text: the keys, words joined by a blank
    "touch x && chmod +x y": ["touch", "chmod"],
    "git push origin main": ["git push"],
    "git push": ["git push"],
    "git log -5": ["git log"],
    "git stash pop": ["git stash pop"],
    "git stash": ["git stash"],
    "git reset --soft HEAD~1": ["git reset"],
    "git rm a": ["git rm"],
    "git clone https://github.com/a/b": ["git clone"],
    "git worktree add ../x": ["git worktree add"],
    "npm run build": ["npm run build"],
    "npm run build -- --watch --script-shell=x": ["npm run build"],
    "npm test": ["npm test"],
    "npm install lodash": ["npm install"],
    "npm run 'test:*'": ["npm run test:*"],
    "npm": ["npm"],
    "pnpm run lint": ["pnpm run lint"],
    "pnpm build": ["pnpm build"],
    "yarn": ["yarn"],
    "yarn build": ["yarn build"],
    "bun run dev": ["bun run dev"],
    "bun test": ["bun test"],
    "deno task x": ["deno task x"],
    "pip install x": ["pip install"],
    "uv pip install x": ["uv pip install"],
    "uv sync": ["uv sync"],
    "cargo build --release": ["cargo build"],
    "cargo run": ["cargo run"],
    "go test ./...": ["go test"],
    "go mod tidy": ["go mod tidy"],
    "docker ps": ["docker ps"],
    "docker compose up -d": ["docker compose up"],
    "podman compose logs": ["podman compose logs"],
    "docker image ls": ["docker image ls"],
    "docker build -t x .": ["docker build"],
    "kubectl get pods": ["kubectl get"],
    "kubectl rollout status x": ["kubectl rollout status"],
    "helm list": ["helm list"],
    "helm repo update": ["helm repo update"],
    "terraform plan": ["terraform plan"],
    "terraform state list": ["terraform state list"],
    "systemctl restart nginx": ["systemctl restart"],
    "gh pr create -t x": ["gh pr create"],
    "gh api repos/a/b": ["gh api"],
    "aws s3 cp a b": ["aws s3 cp"],
    "gcloud compute instances list": ["gcloud compute instances list"],
    "az vm list": ["az vm list"],
    "az network vnet subnet delete -g x -n y": ["az network vnet subnet delete"],
    "gcloud sql instances delete x": ["gcloud sql instances delete x"],
    "gcloud run services list --region=x --format=json": ["gcloud run services list"],
    "gcloud sql instances list --format json": ["gcloud sql instances list"],
    "gcloud compute instances list --zone x --quiet": ["gcloud compute instances list"],
    "gcloud compute instances list --quiet --limit 5 --filter 'a=b c'": ["gcloud compute instances list"],
    "gcloud iam service-accounts keys create": ["gcloud iam service-accounts keys create"],
    "docker node rm x": ["docker node rm"],
    "docker secret ls": ["docker secret ls"],
    "podman manifest push x": ["podman manifest push"],
    "podman system df": ["podman system df"],
    "docker checkpoint ls x": ["docker checkpoint ls"],
    "kubectl auth can-i get pods": ["kubectl auth can-i"],
    "kubectl certificate approve x": ["kubectl certificate approve"],
    "kubectl set image deployment/x a=b": ["kubectl set image"],
    "helm registry login x": ["helm registry login"],
    "helm install x bitnami/nginx": ["helm install"],
    "brew services list": ["brew services list"],
    "dnf group install x": ["dnf group install"],
    "gh pr close 5": ["gh pr close"],
    "gh pr list -d": ["gh pr list"],
    "gh pr create -d": ["gh pr create"],
    "make": ["make"],
    "make build": ["make build"],
    "make -j4 build test": ["make build test"],
    "make build -s": ["make build"],
    "just deploy": ["just deploy"],
    "mise run lint": ["mise run lint"],
    "tox -e py311": ["tox"],
    "pytest -x": ["pytest"],
    "python3 -m pytest -q": ["python3 -m pytest"],
    "python3.12 -m mypy src": ["python3.12 -m mypy"],
    "python3 --version": ["python3 --version"],
    "python3 /usr/lib/x.py --fast": ["python3 /usr/lib/x.py"],
    "/usr/bin/touch x": ["/usr/bin/touch"],
    "ls -la | head -3": ["ls", "head"],
    "ls; pwd || true": ["ls", "pwd", "true"],
    "npm run test 2>&1": ["npm run test"],
    "npm run test >/dev/null 2>&1": ["npm run test"],
    'git sta""tus': ["git status"],
    "g''it 'status'": ["git status"],
    "sed -n 1,20p a": ["sed"],
    "sed -n '5p;7,$p' a b": ["sed"],
    "find . -name x": ["find"],
    "sort -u a": ["sort"],
    "uniq -c a": ["uniq"],
    "hostname -f": ["hostname"],
    "printf '%s' x": ["printf"],
    "grep -e x -c a": ["grep"],
    "curl -sSL https://example.com/x": ["curl"],
    "sbox ls && ls": ["sbox", "ls"],
    "cd /srv/app && npm test": ["cd /srv/app", "npm test"],
    "flutter analyze": ["flutter analyze"],
    "mytool sub --all": ["mytool sub --all"],
    "mytool": ["mytool"],
    "vite build --mode x": ["vite"],
    "truncate -s 0 a": ["truncate"],
    "cp a b && mv b c": ["cp", "mv"],
    "gh repo view a/b": ["gh repo view"],
    "apt-get update": ["apt-get update"],
    "apt-get install -y jq": ["apt-get install"],
    "brew install homebrew/cask/x": ["brew install"],
    "docker service ls": ["docker service ls"],
    "actionlint .github/workflows/ci.yml": ["actionlint"],
    "wrangler deploy": ["wrangler deploy"],
    "cdk deploy": ["cdk deploy"],
    "cd app": ["cd app"],
    "LS x": ["LS x"],
}


@pytest.mark.parametrize("text", KEYS)
def test_the_key_is_what_is_run(text: str) -> None:
    assert base_tokens(text) == KEYS[text]
    segments = read(text) or []
    assert [covers(key, segment.argv) for key, segment in zip(keys(text), segments, strict=True)] == [True] * len(
        segments
    )


NO_KEY = {
    "shells": """sh -c x; bash -lc 'a b'; /bin/bash x; /bin/zsh -lc whoami; dash x; fish -c x; busybox sh; bash
        pwsh -c x; ksh93 x; bash5 x; BASH x""",
    "carriers": """timeout 30 npm test; nohup x; nice -n 5 x; stdbuf -o0 x; env A=b x; env x; xargs x; command x
        builtin x; exec x; time x; setsid x; watch x; sudo x; doas x; su x; ssh host x; parallel x; flock f x
        strace x; npx x; pipx run x; uvx x; uv run x; uv tool run x; docker run x; docker exec a x; podman run x
        docker compose run a; docker compose exec a b; kubectl exec p x; poetry run x; pipenv run x; conda run x
        bundle exec x; mise exec x; find . -exec x {} +; find . -delete; find . -execdir x; find . -ok x; fd -x rm
        fd . -X rm; awk '{print}'; gawk x; tar xf a; vim x; less x; man x; npm exec x; npm x y; npm init foo
        yarn dlx x; pnpm dlx x; pnpm exec x; yarn node x; bun x y; go tool x; deno run x; foo exec x; foo run x
        foo -c x; tsx x; nodemon x; tmux new x; screen x; script -c x; gdb x; at now; crontab x; rsync a b; scp a b
        nc x 1; socat a b; psql -c x; ip netns exec a b; dart run x; dotnet run; systemd-run x; sqlite3 a; emacs x
        perf stat x; bwrap x; unshare x; cmake -E env x; cmake -P x; gcloud compute ssh x""",
    "agents and the gate": """slack-gate; slack-gate rules; slack-gate status; slack_gate x; /usr/bin/slack-gate rules
        claude; claude --version; claude-code; codex exec x; gemini x; cursor; cursor-agent x; copilot; opencode; aider
        amp; goose x; Claude x; gh copilot suggest x; gh agent-task create x""",
    "programs nothing is known of, with what could be run": """newtool ./x; newtool /usr/bin/ls; newtool x.sh
        newtool ls; newtool bash; newtool npm test; newtool make; newtool python3; newtool claude; newtool a=b
        newtool --with=x; newtool 'a b'; newtool host:x; newtool a@b; newtool one two three four five six seven
        newtool sudo x; newtool -x vim; newtool rm x; newtool bash5; newtool ansible-doc x; newtool ../x""",
    "upwards": "cd ..; cd ../x; cd a/../..; cd a/..; cd /srv/..; cd ../../; cd ./..",
    "a way through /proc": """python3 /proc/self/cwd/a.py; /proc/self/cwd/newtool; /proc/self/exe x
        python3 /dev/fd/3""",
    "options that load code or reach a socket": """curl --engine /tmp/x.so; curl --eng x
        curl --unix-socket /run/docker.sock x; curl --abstract-unix-socket x y; nm --plugin /tmp/x.so a
        size --plugin=x a
        actionlint -shellcheck=/tmp/x; actionlint -pyflakes /tmp/x""",
    "containers by longer names": """docker service create x; docker stack deploy x; docker swarm join x
        docker sandbox run x; docker model run x; podman kube play x; podman play kube x; podman machine ssh
        podman pod create x; podman container runlabel a b; podman system connection add x ssh://y
        podman system service; kubectl alpha debug x""",
    "packages that are files": """apt-get install ./x.deb; apt install /tmp/x.deb; dnf install x.rpm
        brew install ./x.rb; brew install x.rb; snap install x.snap; flatpak install x.flatpak
        conda install x.conda; conda install --file=x; snap try x; flatpak install --bundle x
        mamba install --file x; apt-get install --solver=/tmp/x y; conda install ~/x""",
    "more options that carry": """apt-get update -o APT::Update::Pre-Invoke::=x; apt update --option=x
        apt-get install -c x y; gh repo clone a/b -- -u x; gh pr checkout 3""",
    "another server, account or cluster than was meant": """kubectl get pods --server=https://a.example
        kubectl get pods -s https://a.example; kubectl delete pod x --context prod; kubectl get x --token=y
        kubectl get x --client-certificate y --client-key z
        kubectl apply -f x --cluster y; helm list --kube-apiserver https://a.example; helm install x --kube-context y
        aws s3 rm x --profile prod; gcloud sql instances delete x --project prod; az vm delete x --subscription y""",
    "commands for another machine": """az vm run-command invoke --scripts x; az aks command invoke -c x
        az containerapp exec -n x; az rest --method delete""",
    "a word of the command may stand behind an option": """gcloud sql instances --quiet delete x
        gcloud sql --format json instances list; az network --x vnet delete; gcloud sql instances --format=json delete
        gcloud sql instances --format json delete x; gcloud sql instances --quiet --format=json delete""",
    "more than was meant": """gh repo deploy-key add k; gh repo autolink create; gh skill install a/b
        gh pr close 5 -d; gh pr close 5 --delete-branch; gh pr close 5 --delete; gh pr merge 5 -sd; unzip -o x.zip
        unzip x.zip
        unzip -l x.zip; tar xf x.tar""",
    "what others publish, or nobody signed": """helm install x oci://a.example/b; helm upgrade x https://a.example/b.tgz
        helm install x y --repo https://a.example; kubectl apply -f https://a.example/x.yaml
        brew install evil/tap/x; brew tap evil/tap; dnf install --nogpgcheck x
        brew tap homebrew/x git@a.example:x.git; brew tap homebrew/x directory; dnf copr enable evil/x
        dnf config-manager --add-repo https://a.example; flatpak remote-add x https://a.example
        helm repo add x https://a.example
        dnf install https://a.example/x; flatpak install --from https://a.example/x
        apt-get install --allow-unauthenticated x; docker extension install x; docker mcp gateway run
        podman quadlet install x""",
    "calls that change, by a program that mostly reads": """gh api -X DELETE repos/a/b; gh api repos/a/b --method PUT
        gh api graphql -f query=x; gh api repos/a/b --input x; gh api -XPATCH repos/a/b; hostname --file=x
        systemctl poweroff; systemctl reboot; systemctl isolate rescue.target""",
    "builtins that change what follows": """export A=b; declare -x A=b; typeset A; readonly A=b; set -e; unset A
        alias a=b; source x; . x; eval x; trap x EXIT; hash -p a b; enable -f a b; local a; pushd x; let a=1; read a
        mapfile a; test -v x; ulimit x; umask 0; shopt -s x; printf -v a b; exit 1; cd; cd -; cd -P x; cd a b; fc x
        bind x; wait; coproc x""",
    "interpreters": """python3 /usr/lib/net_git.py /bin/a /bin/b -- git push
        python3 -I -S /usr/lib/net_git.py a
        python3 a.py; python3 ./a.py; python3 -c x; python3; python3 -; python -i; node a.js
        node -e x; ruby a.rb; perl -e x; perl a; php a; lua a; python3 /tmp/a.py; python3 ~/projects/a.py
        python3 -m http.server; python3 -m evil; java -jar a.jar; Rscript a; python3.12 a.py; bun a.ts; deno a.ts -x""",
    "programs by path in writable or unknown places": """./x; ./gradlew build; ../x; bin/x; /tmp/x; ~/projects/x
        ~/projects/app/node_modules/.bin/tsc; /tmp/git status; ./make x; /usr/bin/git status; /usr/bin/make x
        /usr/bin/env x; /bin/rm x""",
    "never remembered": """rm x; rm -rf x; dd if=a of=b; mkfs.ext4 x; mkfs x; shutdown now; reboot; halt; poweroff
        shred x; git reset --hard; git reset --hard HEAD; git clean -fd; git push --force; git push -f
        git push origin +main; git push origin :main; git push --delete origin x; git push --mirror
        git push -d origin x; git push --prune; git push --force-with-lease; git stash clear; wipefs x; rmdir x""",
    "git that runs other things or skips checks": """git commit --no-verify -m x; git commit -n -m x
        git push --no-verify; git -c a=b commit -m x; git -C /srv push; git; git --git-dir=/x push
        git --no-pager log; git rebase -x y; git rebase -i x; git bisect run x; git submodule foreach x
        git config a b; git config --list; git log --output=F; git grep -O x; git fetch --upload-pack=x
        git push ext::x; git push https://x/y; git push ./d; git push /x; git clone ext::x; git clone ./x
        git clone -c a=b https://x/y; git clone -u x https://x/y; git difftool; git st; git symbolic-ref HEAD x
        git reflog expire; git ls-remote ./x""",
    "options that carry": """npm run --script-shell=x build; npm run build --script-shell=x
        npm run build --script-sh x; npm --prefix x run build; npm run build -C x; npm test --node-options=x
        cargo build --config x; cargo --config x build; cargo +nightly build; cargo build -Zx; go build -toolexec=x
        go test -exec x; go test --exec=x; go vet -vettool=x; go run example.com/x@latest -exec y; make -f x
        make -C x; make SHELL=x; make --eval=x; make build CC=x; make -fx; make 'a b'; sort -o x a; sort -ox a
        sort --output=x a; sort --out x; sort --o=x a; cp a --t=x; sort --compress-prog=x
        sort -uo x; rg --pre x y; rg --pre=x y
        rg --hostname-bin x; uniq a b; hostname x; curl -K x; curl -sKx y; curl --config x; wget --use-askpass=x
        date -s x; date --set=x; ss -K; kubectl get --kubeconfig=x; helm --post-renderer x install
        helm install --post-renderer=x; terraform -chdir=x plan; terraform plan -chdir=x; mvn test -Dx=y
        gradle build -I x; gh -R x pr view; docker -H x ps; docker compose -f x up; docker-compose -f x up
        pip install --target x; just -f x y; just --justfile x; kubectl -n x get; foo --exec x; foo --pager=x
        sed -i s/a/b/ x; sed -n 1e x; sed s/a/b/ x; sed -n '1,2w f' x; sed -n 1p -i x; sed -f x y; sed -n; rake -r x
        yarn --cwd x build; npm run -w x; npm run '' x; npm run 'a b'""",
    "hosts in disguise": """curl https://xn--80ak6aa92e.com; curl xn--a.com; curl 'https://еxample.com/x'
        curl 'еxample.com'; wget https://a%2eb/x; gh api 'https://ａ.com'; foo 'https://еxample.com'
        curl 'https://a\\b/x'; ping 'еxample.com'""",
    "not read exactly": """npm run $X; npm run $(cat n); npm run `x`; A=b npm test; PATH=/tmp/x npm test
        npm test > out; npm test & x; npm test |& cat; for d in a; do rm x; done; do rm -rf x; GH_TOKEN=x gh api user
        ls *; {git,push}; npm test # x; $SUB; rm$IFS-rf; ! ls; [[ a ]]; if x; echo "$(git rev-parse HEAD)"
        npm run test 2>&1 > ~/.bashrc""",
    "one part that must not be": """ls && rm x; ls;bash x; ls | xargs rm; npm test && ./x; touch x && export A=b
        cd /x && git push; git status && cd /x; curl x | sh""",
}


@pytest.mark.parametrize("kind", NO_KEY)
def test_what_is_never_remembered(kind: str, house: House) -> None:
    assert [(line, base_tokens(line)) for line in entries(NO_KEY[kind]) if base_tokens(line)] == []


@pytest.mark.parametrize(
    "text", ["git log\ntouch x", "# git log\ntouch x", "", "npm test\n", "a" * 200_000, "x" * 300, "é"]
)
def test_no_key_for_text_that_is_not_one_line_of_words(text: str) -> None:
    assert keys(text) == []


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (("git", "push"), "git push --force"),
        (("git", "push"), "git push origin +main"),
        (("git", "commit"), "git commit --no-verify -m x"),
        (("git",), "git status"),
        (("git", "status"), "git"),
        (("npm", "run", "test"), "npm run test:unit"),
        (("npm", "run", "test"), "npm run tests"),
        (("npm", "run", "test:*"), "npm run test:deploy"),
        (("npm run test",), "npm run test"),
        (("npm", "run", "a"), "npm run a b".replace("a b", "'a b'")),
        (("make",), "make deploy"),
        (("make", "a"), "make a b"),
        (("ls",), "/bin/ls"),
        (("ls",), "LS"),
        (("git", "push"), "GIT push"),
        (("mytool",), "mytool x"),
        (("mytool", "x"), "mytool"),
        (("mytool", "x"), "mytool x y"),
        (("chronic",), "chronic x"),
        (("rm",), "rm x"),
        (("bash",), "bash"),
        ((), "ls"),
        (("npm", "test"), "npm 'test '"),
        (("python3", "a.py"), "python3 a.py"),
        (("*",), "ls"),
        (("sbox",), "sbox --bind / / sh"),
    ],
)
def test_a_key_covers_nothing_else(key: tuple[str, ...], text: str) -> None:
    (segment,) = read(text) or ()
    assert not covers(key, segment.argv)


def test_the_scripts_a_link_in_the_zone_leads_to(house: House) -> None:
    (house.outside / "a.py").write_text("")
    (house.projects / "a.py").symlink_to(house.outside / "a.py")
    (house.outside / "b.py").symlink_to(house.projects / "a.py")
    found = [keys(f"python3 {house.outside}/{name}") for name in ("a.py", "b.py")]
    assert found == [[("python3", f"{house.outside}/a.py")], []]


def test_a_key_covers_no_empty_words() -> None:
    assert not covers((), ())
    assert key_of(("",)) is None


RUNNERS = """gem install x; wrangler deploy; cdk deploy
        make x; npm test; npm run build; pnpm build; yarn x; bun run x; pytest; cargo test; go run ./x
    go test ./...
    go generate; tox; nox; gradle build; mvn test; just x; rake x; python3 -m pytest; docker compose up
    docker build .; cargo-watch; cargo-nextest run; pip-compile; npm-run-all x; git-lfs pull
    /usr/bin/make x; jest; eslint .; terraform plan; pip install ."""
NO_RUNNERS = """ls; touch x; grep x; docker ps; go mod tidy; curl x; gh pr view; kubectl get pods; sbox x; go
    docker; python3 /usr/lib/x.py; ssh-keygen; apt-get update"""


def test_programs_that_run_project_code() -> None:
    def runs(text: str) -> bool:
        return is_project_runner(tuple(text.split()))

    assert [text for text in entries(RUNNERS) if not runs(text)] == []
    assert [text for text in entries(NO_RUNNERS) if runs(text)] == []


def test_git_runs_project_code_where_caged_code_can_write(house: House) -> None:
    local, network = ("git", "commit", "-m", "x"), ("git", "push", "origin", "main")
    assert (is_project_runner(local), is_project_runner(network)) == (True, False)
    assert [is_project_runner(argv, str(house.repo)) for argv in (local, network)] == [False, False]
    assert not is_project_runner(("git", "-C", str(house.outside), "log"), str(house.repo))
    evil_fsmonitor(house.repo)
    assert [is_project_runner(argv, str(house.repo)) for argv in (local, network)] == [True, True]
    assert not is_project_runner(local, str(house.outside))
    assert is_project_runner(("git", "unknown"), str(house.repo))
