// Finding and checking guest images. Must never trust a folder whose image.json is missing: that
// file is written last.
#include "vmm/image.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGE_JSON_MAX (256 * 1024)
#define IMAGES_MAX 4096
#define VERSION "image_version" // reason of an error: an image of another cellkeep

// sizes: what image.json says. A file that was cut short would only be noticed by a guest, much later.
static int need_file(const char *dir, const json_t *sizes, const char *name, uint64_t *bytes, struct ck_err *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (ck_path(path, sizeof path, err, "%s/%s", dir, name))
        return -1;
    if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_size == 0 || access(path, R_OK))
        return ck_fail(err, 500, "bad_image", "the guest image lacks a readable %s: run `cellkeep image build`", path);
    int64_t want = ck_json_int(sizes, name, 0, NULL);
    if (st.st_size != want)
        return ck_fail(err, 500, "bad_image", "the guest image is damaged: %s has %lld bytes instead of %lld; run `cellkeep image build`",
                       path, (long long)st.st_size, (long long)want);
    if (bytes)
        *bytes = (uint64_t)st.st_size;
    return 0;
}

// *sizes (owned by the caller, when 0 is returned): the files' names to their bytes.
static int read_json(const char *path, json_t **sizes, bool *own, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    struct ck_err inner = CK_ERR_INIT;
    if (ck_read_file(path, IMAGE_JSON_MAX, &b, &inner))
        return ck_fail(err, 500, "bad_image", "%s: run `cellkeep image build`", inner.text);
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(b.p, b.n, false, &inner);
    if (!j)
        return ck_fail(err, 500, "bad_image", "%s is damaged (%s): run `cellkeep image build`", path, inner.text);
    const char *magic = ck_json_str(j, "magic", "", NULL);
    int64_t version = ck_json_int(j, "version", 0, NULL);
    json_t *s = json_object_get(j, "sizes");
    if (strcmp(magic, "cellkeep-image") || version != CK_IMAGE_VERSION || !json_is_object(s))
        return ck_fail(err, 500, VERSION,
                       "%s has magic \"%.32s\" version %lld%s, this cellkeep reads \"cellkeep-image\" version %d: run "
                       "`cellkeep image build`",
                       path, magic, (long long)version, s ? "" : " without sizes", CK_IMAGE_VERSION);
    *sizes = json_incref(s);
    *own = ck_json_bool(j, "own", false, NULL);
    return 0;
}

static bool hash_ok(const char *s)
{
    size_t n = strspn(s, "0123456789abcdef");
    return n >= 8 && n < CK_HASH_MAX && !s[n];
}

int ck_image_load(const char *dir, struct ck_image *out, struct ck_err *err)
{
    *out = (struct ck_image){.root_bytes = 0};
    char path[PATH_MAX];
    if (!realpath(dir, out->dir))
        return ck_fail_errno(err, errno, 500, "bad_image", "cannot open the guest image %s", dir);
    const char *base = strrchr(out->dir, '/') + 1;
    if (!hash_ok(base))
        return ck_fail(err, 500, "bad_image", "%s is not a guest image: its name is no hash", out->dir);
    snprintf(out->hash, sizeof out->hash, "%s", base);
    struct stat st;
    if (ck_path(path, sizeof path, err, "%s/image.json", out->dir))
        return -1;
    if (stat(path, &st))
        return ck_fail_errno(err, errno, 500, "bad_image", "the guest image is not complete (%s), run `cellkeep image build`", path);
    CK_CLEAN_JSON json_t *sizes = NULL;
    if (read_json(path, &sizes, &out->own, err) || need_file(out->dir, sizes, "root.erofs", &out->root_bytes, err) ||
        need_file(out->dir, sizes, "vmlinuz", NULL, err) || need_file(out->dir, sizes, "initrd", NULL, err))
        return -1;
    if (ck_path(path, sizeof path, err, "%s/initrd", out->dir))
        return -1;
    out->built_s = stat(path, &st) ? 0 : st.st_mtime; // image.json is touched whenever it is used, the root may be older
    return 0;
}

// When image.json was written last, 0 = there is none: what has none is not finished, and no image.
static int64_t finished_ns(const char *images, const char *name, char *dir, size_t room)
{
    char path[PATH_MAX];
    struct stat st;
    if (!hash_ok(name) || snprintf(dir, room, "%s/%s", images, name) >= (int)room ||
        ck_path(path, sizeof path, NULL, "%s/image.json", dir) || stat(path, &st))
        return 0;
    return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

// An older image is no substitute for a damaged one: it has other packages, or another agent. Those of
// other versions of cellkeep, which may use the same cache, are passed over, and so are users' own.
int ck_image_find(const char *cache_dir, struct ck_image *out, struct ck_err *err)
{
    char path[PATH_MAX], dir[PATH_MAX];
    int64_t newest_ns = 0;
    struct ck_err result = CK_ERR_INIT;
    if (ck_path(path, sizeof path, err, "%s/images", cache_dir))
        return -1;
    ck_fail(&result, 500, "no_image", "there is no guest image in %s: run `cellkeep image build`", path);
    DIR *d = opendir(path);
    struct dirent *e;
    for (int i = 0; d && i < IMAGES_MAX && (e = readdir(d)); i++) {
        struct ck_image one;
        struct ck_err bad = CK_ERR_INIT;
        int64_t at = finished_ns(path, e->d_name, dir, sizeof dir);
        if (at <= newest_ns)
            continue;
        ck_image_load(dir, &one, &bad);
        bool foreign = !strcmp(bad.reason, VERSION);
        if (one.own || (foreign && newest_ns))
            continue;
        newest_ns = foreign ? 0 : at;
        result = bad;
        *out = one;
    }
    if (d)
        closedir(d);
    if (result.status && err)
        *err = result;
    return result.status ? -1 : 0;
}
