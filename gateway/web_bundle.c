// Maps the files of the web front-end. Runs at the start only; afterwards nothing of the disk is looked at,
// so no name in a request can lead to a file that was not meant. HTML files are copied instead of mapped,
// with the base URL put in; they are small, and sent uncompressed.
#include "gateway/web_bundle.h"

#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 512
#define BYTES_MAX (64u << 20)
#define BASE_MARK "__CK_BASE__"

static const char *const suffix[WEB_CODINGS] = {"", ".gz", ".br"};

struct web_bundle {
    size_t n, bytes;
    struct web_file files[FILES_MAX];
};

const char *web_bundle_type(const char *name)
{
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"},      {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},        {".svg", "image/svg+xml"},
        {".woff2", "font/woff2"},                   {".png", "image/png"},
        {".json", "application/json"},              {".txt", "text/plain; charset=utf-8"},
        {".webmanifest", "application/manifest+json"},
    };
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end && i < sizeof types / sizeof *types; i++)
        if (!strcmp(end, types[i][0]))
            return types[i][1];
    return NULL;
}

static bool is_html(const char *name)
{
    const char *end = strrchr(name, '.');
    return end && !strcmp(end, ".html");
}

// 1 = there is no such file, or it is empty.
static int map_file(const char *path, struct web_body *out, struct ck_err *err)
{
    CK_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0 && errno == ENOENT)
        return 1;
    if (fd < 0 || fstat(fd, &st))
        return ck_fail_errno(err, errno, 500, "bad_bundle", "cannot read %s", path);
    if (!S_ISREG(st.st_mode) || !st.st_size)
        return 1;
    if (st.st_size > (off_t)BYTES_MAX)
        return ck_fail(err, 500, "bad_bundle", "%s is too large for a file of the web front-end", path);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return ck_fail_errno(err, errno, 500, "bad_bundle", "cannot map %s", path);
    *out = (struct web_body){p, (size_t)st.st_size};
    return 0; // cppcheck-suppress memleak ; the mapping is the body's now
}

// The base URL is of harmless characters only (config.c checks it), so it needs no escaping.
static int read_html(const char *path, const char *base_url, struct web_body *out, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf in = CK_BUF_INIT;
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (ck_read_file(path, 1 << 20, &in, err))
        return -1;
    const char *p = in.n ? (const char *)in.p : "";
    for (const char *hit; (hit = strstr(p, BASE_MARK)); p = hit + strlen(BASE_MARK))
        if (ck_buf_add(&b, p, (size_t)(hit - p)) || ck_buf_add_str(&b, base_url))
            return ck_fail(err, 500, "no_memory", "out of memory");
    if (ck_buf_add_str(&b, p))
        return ck_fail(err, 500, "no_memory", "out of memory");
    char *copy = malloc(b.n + 1);
    if (!copy)
        return ck_fail(err, 500, "no_memory", "out of memory");
    memcpy(copy, b.p, b.n);
    *out = (struct web_body){copy, b.n};
    return 0;
}

static void file_free(struct web_file *f)
{
    bool html = f->name && is_html(f->name);
    for (int c = 0; c < WEB_CODINGS; c++) {
        if (!f->body[c].p)
            continue;
        if (html)
            free((char *)f->body[c].p);
        else
            munmap((char *)f->body[c].p, f->body[c].n);
    }
    free(f->name);
}

static int hash_file(struct web_file *f)
{
    uint8_t sum[CK_SHA256_LEN];
    if (ck_sha256(ck_slice(f->body[WEB_PLAIN].p, f->body[WEB_PLAIN].n), sum))
        return -1;
    for (size_t i = 0; i < sizeof f->hash / 2; i++)
        snprintf(f->hash + 2 * i, 3, "%02x", sum[i]);
    return 0;
}

static int load_bodies(struct web_file *f, const char *dir, const char *base_url, struct ck_err *err)
{
    char path[PATH_MAX];
    int codings = is_html(f->name) ? 1 : WEB_CODINGS;
    for (int c = 0; c < codings; c++) {
        if (ck_path(path, sizeof path, err, "%s/%s%s", dir, f->name, suffix[c]))
            return -1;
        int rc = is_html(f->name) ? read_html(path, base_url, &f->body[c], err) : map_file(path, &f->body[c], err);
        if (rc < 0 || (rc && c == WEB_PLAIN))
            return rc;
    }
    return hash_file(f) ? ck_fail(err, 500, "no_memory", "cannot hash %s", f->name) : 0;
}

static int add_file(struct web_bundle *b, const char *dir, const char *sub, const char *base, const char *base_url,
                    struct ck_err *err)
{
    if (!web_bundle_type(base) || base[0] == '.')
        return 0;
    if (b->n == FILES_MAX)
        return ck_fail(err, 500, "bad_bundle", "%s has more than %d files; it is no bundle of the web front-end", dir, FILES_MAX);
    struct web_file *f = &b->files[b->n];
    char name[NAME_MAX * 2];
    if (ck_path(name, sizeof name, err, "%s%s", sub, base))
        return -1;
    f->type = web_bundle_type(base);
    f->name = strdup(name);
    if (!f->name)
        return ck_fail(err, 500, "no_memory", "out of memory");
    int rc = load_bodies(f, dir, base_url, err);
    for (int c = 0; c < WEB_CODINGS; c++)
        b->bytes += f->body[c].n;
    if (!rc && b->bytes > BYTES_MAX)
        rc = ck_fail(err, 500, "bad_bundle", "%s is larger than %u MiB; it is no bundle of the web front-end", dir, BYTES_MAX >> 20);
    if (rc) {
        file_free(f);
        memset(f, 0, sizeof *f);
    } else {
        b->n++;
    }
    return rc < 0 ? -1 : 0;
}

static int add_folder(struct web_bundle *b, const char *dir, const char *sub, const char *base_url, struct ck_err *err)
{
    char path[PATH_MAX];
    if (ck_path(path, sizeof path, err, "%s/%s", dir, sub))
        return -1;
    DIR *d = opendir(path);
    if (!d)
        return ck_fail_errno(err, errno, 500, "bad_bundle", "cannot read the folder %s of the web front-end", path);
    int rc = 0;
    for (struct dirent *e; !rc && (e = readdir(d));)
        rc = add_file(b, dir, sub, e->d_name, base_url, err);
    closedir(d);
    return rc;
}

int web_bundle_load(const char *dir, const char *base_url, struct web_bundle **out, struct ck_err *err)
{
    struct web_bundle *b = calloc(1, sizeof *b);
    *out = NULL;
    if (!b)
        return ck_fail(err, 500, "no_memory", "out of memory");
    int rc = add_folder(b, dir, "", base_url, err) || add_folder(b, dir, "assets/", base_url, err) ? -1 : 0;
    if (!rc && !web_bundle_get(b, "index.html"))
        rc = ck_fail(err, 500, "bad_bundle", "%s has no index.html; build the web front-end with script/web", dir);
    if (rc)
        web_bundle_free(b);
    else
        *out = b;
    return rc;
}

int web_bundle_find(const char *dir, const char *exe, const char *base_url, struct web_bundle **out, struct ck_err *err)
{
    static const char *const places[] = {"share/cellkeep/web", "web/dist"};
    char path[PATH_MAX], index[PATH_MAX];
    *out = NULL;
    if (dir)
        return web_bundle_load(dir, base_url, out, err);
    const char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        if (ck_path(path, sizeof path, err, "%.*s/../%s", (int)(slash - exe), exe, places[i]) ||
            ck_path(index, sizeof index, err, "%s/index.html", path))
            return -1;
        if (!access(index, R_OK))
            return web_bundle_load(path, base_url, out, err);
    }
    return 1;
}

void web_bundle_free(struct web_bundle *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n; i++)
        file_free(&b->files[i]);
    free(b);
}

const struct web_file *web_bundle_get(const struct web_bundle *b, const char *name)
{
    for (size_t i = 0; b && i < b->n; i++)
        if (!strcmp(b->files[i].name, name))
            return &b->files[i];
    return NULL;
}

// True when the list of codings has this one and does not rule it out by q=0.
static bool accepts(const char *list, const char *coding)
{
    size_t n = strlen(coding);
    for (const char *p = list; *p;) {
        p += strspn(p, " \t,");
        size_t item = strcspn(p, ",");
        size_t word = strcspn(p, ",; \t");
        if (word == n && !strncasecmp(p, coding, n)) {
            const char *q = memchr(p, '=', item);
            return !q || strtod(q + 1, NULL) > 0;
        }
        p += item;
    }
    return false;
}

enum web_coding web_bundle_choose(const struct web_file *f, const char *accept)
{
    if (accept && f->body[WEB_BROTLI].p && accepts(accept, "br"))
        return WEB_BROTLI;
    if (accept && f->body[WEB_GZIP].p && accepts(accept, "gzip"))
        return WEB_GZIP;
    return WEB_PLAIN;
}
