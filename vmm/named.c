// Templates with names. Must never leave half a file: whoever reads one starts sessions from what it names.
#include "vmm/named.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MAGIC "cellkeep-named-template"
#define JSON_MAX 65536
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-_"

static bool name_ok(const char *name, size_t n)
{
    return n > 0 && n < CK_NAMED_MAX && strspn(name, NAME_CHARS) >= n && *name != '-' && *name != '_';
}

int ck_named_check(const char *name, struct ck_err *err)
{
    if (name_ok(name, strlen(name)))
        return 0;
    return ck_fail(err, 400, "bad_name", "the name of a template is 1 to 64 of a-z, 0-9, - and _ and begins with a letter or digit");
}

bool ck_named_parse_file(const char *file, struct ck_named *out)
{
    size_t n = strcspn(file, ".");
    unsigned long memory;
    char *end;
    *out = (struct ck_named){.memory_mb = 0};
    if (!name_ok(file, n) || file[n] != '.' || file[n + 1] < '1' || file[n + 1] > '9')
        return false;
    memory = strtoul(file + n + 1, &end, 10);
    enum ck_vm_accel accel;
    size_t a = *end == '.' ? strcspn(end + 1, ".") : 0;
    if (memory > CK_MEMORY_MB_MAX || !a || a >= sizeof out->accel || strcmp(end + 1 + a, ".json") != 0)
        return false;
    memcpy(out->name, file, n);
    memcpy(out->accel, end + 1, a);
    out->memory_mb = (unsigned)memory;
    return ck_vm_accel_from_name(out->accel, &accel);
}

int ck_named_put(const char *cache, const char *name, const struct ck_template *t, struct ck_err *err)
{
    char dir[PATH_MAX], path[PATH_MAX];
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *j = json_pack("{s:s, s:i, s:s, s:s, s:s, s:i, s:s, s:s}", "magic", MAGIC, "version", 1, "name", name,
                                        "template", t->hash, "image", t->image, "memory_mb", (int)t->memory_mb, "accel",
                                        ck_vm_accel_name(t->accel), "qemu", t->qemu);
    if (!j || ck_json_dump(j, &b) || ck_buf_add_str(&b, "\n"))
        return ck_fail(err, 500, "no_memory", "cannot write down the name of a template");
    if (ck_path(dir, sizeof dir, err, "%s/named", cache) ||
        ck_path(path, sizeof path, err, "%s/%s.%u.%s.json", dir, name, t->memory_mb, ck_vm_accel_name(t->accel)) ||
        ck_mkdirs(dir, 0755, err))
        return -1;
    return ck_write_file_atomic(path, b.p, b.n, 0644, err);
}

int ck_named_lock(const char *cache, const char *name, unsigned memory_mb, int *fd, struct ck_err *err)
{
    char dir[PATH_MAX], path[PATH_MAX];
    *fd = -1;
    if (ck_path(dir, sizeof dir, err, "%s/named", cache) || ck_mkdirs(dir, 0755, err) ||
        ck_path(path, sizeof path, err, "%s/.building-%s.%u", dir, name, memory_mb))
        return -1;
    CK_CLEAN_FD int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0)
        return ck_fail_errno(err, errno, 500, "cannot_write", "cannot create %s", path);
    while (flock(lock, LOCK_SH)) // those who look hold it for no time
        if (errno != EINTR)
            return ck_fail_errno(err, errno, 500, "cannot_write", "cannot lock %s", path);
    *fd = ck_take_fd(&lock);
    return 0;
}

static void read_template(const char *cache, const char *file, struct ck_named *e)
{
    char path[PATH_MAX];
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (ck_path(path, sizeof path, NULL, "%s/named/%s", cache, file) || ck_read_file(path, JSON_MAX, &text, NULL))
        return;
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(text.p, text.n, false, NULL);
    const char *hash = ck_json_str(j, "template", "", NULL);
    size_t n = strspn(hash, "0123456789abcdef");
    if (strcmp(ck_json_str(j, "magic", "", NULL), MAGIC) != 0 || n < 8 || n >= sizeof e->template || hash[n])
        return;
    memcpy(e->template, hash, n + 1);
    e->built = !ck_path(path, sizeof path, NULL, "%s/templates/%s/template.json", cache, hash) && !access(path, F_OK);
}

int ck_named_list(const char *cache, struct ck_named *out, struct ck_err *err)
{
    char dir[PATH_MAX];
    int n = 0;
    if (ck_path(dir, sizeof dir, err, "%s/named", cache))
        return -1;
    DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : ck_fail_errno(err, errno, 500, "cannot_read", "cannot read %s", dir);
    struct ck_named e;
    for (struct dirent *f; (f = readdir(d));) {
        if (!ck_named_parse_file(f->d_name, &e))
            continue;
        if (n == CK_NAMED_LIST_MAX) {
            closedir(d);
            return ck_fail(err, 500, "too_many", "%s has more than %d names; remove some", dir, CK_NAMED_LIST_MAX);
        }
        read_template(cache, f->d_name, &e);
        out[n++] = e;
    }
    closedir(d);
    return n;
}

// Is the file of that name: NAME.…json, or .building-NAME.…
static bool belongs(const char *file, const char *name)
{
    static const char mark[] = ".building-";
    size_t n = strlen(name);
    if (!strncmp(file, mark, sizeof mark - 1))
        file += sizeof mark - 1;
    return !strncmp(file, name, n) && file[n] == '.';
}

int ck_named_remove(const char *cache, const char *name, struct ck_err *err)
{
    char dir[PATH_MAX];
    int gone = 0, failed = 0;
    if (ck_named_check(name, err) || ck_path(dir, sizeof dir, err, "%s/named", cache))
        return -1;
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));)
        if (belongs(f->d_name, name)) {
            if (unlinkat(dirfd(d), f->d_name, 0))
                failed = errno;
            else
                gone++;
        }
    if (d)
        closedir(d);
    if (failed)
        return ck_fail_errno(err, failed, 500, "cannot_write", "cannot remove the name %s from %s", name, dir);
    return gone ? 0 : ck_fail(err, 404, "no_such_template", "there is no template with the name \"%s\"", name);
}
