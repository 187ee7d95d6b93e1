// The files of layers in sessions' folders (docs/PROTOCOL.md section 7): sealing what a bridge made,
// hard links for forks, removing what nobody needs, paused.json and bridge.json. Everything here blocks and is for
// the thread pool, or for the time before the loop runs. Folders belong to bridges, which may have been
// broken out of: nothing follows a symbolic link, waits for a pipe or trusts a name.
#pragma once
#include "common/ck_crypto.h"
#include "common/ck_error.h"
#include "common/ck_proc.h"

#include <stdint.h>
#include <sys/types.h>

#define LAYER_BELOW_MAX 8 // disks below a layer's own

// From layer.json: the layers whose disks lie below. Pure. The number, or -1 when it is malformed.
int layer_parse_below(const void *json, size_t n, char below[LAYER_BELOW_MAX][CK_UUID_MAX], struct ck_err *err);

struct layer_origin { // what a layer was made on: names of folders in the cache
    char template[80], image[80];
    int memory_mb;
};
int layer_read_origin(const char *session_dir, const char *layer, struct layer_origin *out, struct ck_err *err);
int layer_parse_origin(const void *json, size_t n, struct layer_origin *out, struct ck_err *err); // pure

// Makes the layer nobody's to change: files of `owner` (and of us) become root's, 0444. Again is fine.
// Refused while anybody has one of them open for writing. Where we are not root, modes alone. *bytes
// (may be NULL) is what its files take on disk.
int layer_seal(const char *session_dir, const char *layer, uid_t owner, int64_t *bytes, struct ck_err *err);

// The layer and those below it, before they are shared: one whose gateway was killed before it sealed
// it is a disk below like any other, and another session's bridge could not open it.
int layer_seal_all(const char *session_dir, const char *layer, uid_t owner, struct ck_err *err);

// Gives the sealed layer, and the disks below it, to the folder to_dir, which exists, by hard links.
int layer_link(const char *from_dir, const char *to_dir, const char *layer, struct ck_err *err);

// Puts what the paused or forked session has (its layers, paused.json and history) into the folder of a spare
// bridge by hard links, and then lets the two folders change names: session_dir is the spare's from then on,
// and what is left under spare_dir is to be removed. A crash at any moment leaves the session whole under its
// name. After a failure the session is as it was, and the spare's folder is good for nothing.
int folder_take_over(const char *session_dir, const char *spare_dir, struct ck_err *err);

struct layer_wants { // of one session
    const char (*wanted)[CK_UUID_MAX]; // layers that may be restored
    int nwanted;
    char base[CK_UUID_MAX]; // whose disk the running machine's disk lies on; "" = on the template's
    bool base_known;        // false: any of the disks may be needed
    bool stopped;           // no bridge lives: *.tmp are nobody's
};
// Removes the layers of the folder that are not wanted, but for disks that something lies on. When it
// cannot tell, it removes nothing.
void layer_tidy(const char *session_dir, const struct layer_wants *w);

// The bridge of a folder by its bridge.json; pid 0 when there is none or it is not running.
struct ck_proc_id folder_bridge(const char *session_dir);
// Whether a bridge lives in the folder, one that has not written its bridge.json yet too.
bool folder_locked(const char *session_dir);

// The layer of a paused session by its paused.json, and since when (wall clock). -1 = not paused.
int layer_paused(const char *session_dir, const char *session, char layer[CK_UUID_MAX], int64_t *since_us);
