// Block nodes as JSON. Must never leave the choice of a backing file to an image's header, which a
// guest that broke out of its VM can write.
#include "vmm/blockdev.h"

#include <stdio.h>

void ck_blockdev_fdset(int n, char out[CK_BLOCKDEV_NODE_MAX])
{
    snprintf(out, CK_BLOCKDEV_NODE_MAX, "/dev/fdset/%d", n);
}

void ck_blockdev_node(int n, char out[CK_BLOCKDEV_NODE_MAX])
{
    if (n)
        snprintf(out, CK_BLOCKDEV_NODE_MAX, "d%d", n);
    else
        snprintf(out, CK_BLOCKDEV_NODE_MAX, CK_BLOCKDEV_TOP);
}

// No lock: nobody writes it any more, and many read it.
json_t *ck_blockdev_frozen(const char *node, const char *file, const char *backing)
{
    return json_pack("{s:s, s:s, s:b, s:s?, s:{s:s, s:s, s:s}}", "driver", "qcow2", "node-name", node, "read-only", 1,
                     "backing", backing, "file", "driver", "file", "locking", "off", "filename", file);
}

json_t *ck_blockdev_active(const char *node, const char *file, const char *backing)
{
    return json_pack("{s:s, s:s, s:s, s:{s:b}, s:s?, s:{s:s, s:s, s:{s:b}, s:s}}", "driver", "qcow2", "node-name", node,
                     "discard", "unmap", "cache", "no-flush", 1, "backing", backing, "file", "driver", "file",
                     "discard", "unmap", "cache", "no-flush", 1, "filename", file);
}
