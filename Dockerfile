# The daemon alone; hooks on the host reach it through a directory that both see. docs/docker.md has the run line and why.
FROM debian:bookworm-slim AS build
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY scripts/constraints.txt ./
RUN python3 -m venv /opt/slack-gate
COPY pyproject.toml README.md LICENSE ./
COPY manifests manifests
COPY cage cage
COPY slack_gate slack_gate
# pip and setuptools have no work in the image that runs.
RUN PIP_CONSTRAINT=constraints.txt /opt/slack-gate/bin/pip install --quiet --no-cache-dir . \
 && /opt/slack-gate/bin/pip uninstall --quiet --yes pip setuptools

FROM debian:bookworm-slim
# Debian keeps only the newest version of a package, so a pinned one could not be had for long.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --home-dir /var/lib/slack-gate --no-create-home --shell /usr/sbin/nologin slack-gate \
 && install -d -m 0700 -o 10001 -g 10001 /var/lib/slack-gate
COPY --from=build /opt/slack-gate /opt/slack-gate
COPY --chmod=755 scripts/container-start /usr/local/bin/
ENV PATH=/opt/slack-gate/bin:/usr/local/bin:/usr/bin:/bin SLACK_GATE_HOME=/var/lib/slack-gate
# Settings, database, log, and in run/ the hook socket. Bind it to the same path on the host, with --user of its owner.
VOLUME ["/var/lib/slack-gate"]
USER 10001:10001
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["slack-gate", "status"]
ENTRYPOINT ["container-start"]
CMD ["serve"]
