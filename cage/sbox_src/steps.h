/* The mounts made inside the cage, in order, as (kind, source, target). Sources are opened before the first step, so
 * that a step can bring back what an earlier one covered. */
#ifndef STEPS_H
#define STEPS_H

enum {
    ZONE = 'z',    /* target stays writable when all else becomes read-only; these come first */
    EMPTY = 'e',   /* a new writable empty directory over target */
    SEAL = 's',    /* make the mount at target read-only */
    SHOW = 'b',    /* bind source, with what is mounted below it, read-only on target; made when missing */
    WRITE = 'w',   /* the same, writable */
    DEVICE = 'n',  /* bind source, a device, on target; made when missing */
    TTYS = 't',    /* terminals of the cage's own at target */
    FOLDER = 'd',  /* make an empty directory, mode 0700 */
    IGNORE = 'i',  /* make a file by which git ignores the directory it is in */
    LINK = 'l',    /* make a symbolic link from target to source */
    HIDE = 'h',    /* make target read as empty, if it is there */
    LAYER = 'o',   /* overlay: source is read, target written, the layer between is run->scratch or the shared one */
    PIN = 'p',     /* bind target on itself, or on a link a file, so that it cannot be renamed or removed */
    SAVE = 'v',    /* remember the tree at target as it is now */
    COVER = 'c',   /* lay the remembered tree over the pins: renames work across pinned directories */
    VIEW = 'r',    /* show source read-only at target, for GUARD to take from */
    GUARD = 'g',   /* bind source, a place in a view, on target, if it is there */
    HOLD = 'a',    /* the same, but target must be there */
    DONE = 'u',    /* take the view at target away */
    LOCK = 'k',    /* make target read-only in place */
};

#endif
