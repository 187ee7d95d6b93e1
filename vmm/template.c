// Reading templates. Must never accept a folder that is not complete and of this version: what is
// restored from it would fail later and worse.
#include "vmm/template.h"
#include "vmm/template_int.h"

#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "vmm/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "cellkeep-template"
#define JSON_MAX 65536
#define TO_DO "remove the folder and run `cellkeep template build`"

int ck_template_hash(const struct ck_template *t, uint64_t disk_bytes, const char *host_cpu, char out[CK_HASH_MAX],
                     struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    uint8_t digest[CK_SHA256_LEN];
    if (ck_buf_printf(&b, "%s %d\nimage=%s\nqemu=%s\naccel=%s\ncpu=%s\nmemory_mb=%u\nlayout=%d\ndisk=%llu\nhost_cpu=%s\n", MAGIC,
                      CK_TEMPLATE_VERSION, t->image, t->qemu, ck_vm_accel_name(t->accel), t->cpu, t->memory_mb,
                      CK_VM_LAYOUT_VERSION, (unsigned long long)disk_bytes, host_cpu) ||
        ck_sha256(ck_buf_slice(&b), digest))
        return ck_fail(err, 500, "no_memory", "cannot compute the template's hash");
    ck_hex(digest, 16, out); // 128 bits are plenty against accidents
    return 0;
}

int ck_template_write_json(const struct ck_template *t, const char *dir, struct ck_err *err)
{
    char path[PATH_MAX];
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    CK_CLEAN_JSON json_t *j = json_pack(
        "{s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I}", "magic", MAGIC, "version",
        CK_TEMPLATE_VERSION, "layout", CK_VM_LAYOUT_VERSION, "dir", t->dir, "image", t->image, "qemu", t->qemu,
        "qemu_path", t->qemu_path, "accel", ck_vm_accel_name(t->accel), "cpu", t->cpu, "memory_mb", (int)t->memory_mb,
        "state_bytes", (json_int_t)t->state_bytes, "disk_file_bytes", (json_int_t)t->disk_file_bytes, "blank_file_bytes",
        (json_int_t)t->blank_file_bytes, "tsc_khz", (json_int_t)t->tsc_khz, "created_us",
        (json_int_t)t->created_us);
    if (!j || ck_json_dump(j, &b) || ck_buf_add_str(&b, "\n") || ck_path(path, sizeof path, err, "%s/template.json", dir))
        return ck_fail(err, 500, "no_memory", "cannot write template.json");
    return ck_write_file_atomic(path, b.p, b.n, 0644, err);
}

static int take_text(const json_t *j, const char *key, char *out, size_t room, struct ck_err *err)
{
    const char *s = ck_json_str(j, key, "", NULL);
    if (!*s || strlen(s) >= room)
        return ck_fail(err, 500, "bad_template", "template.json has no usable \"%s\"", key);
    memcpy(out, s, strlen(s) + 1);
    return 0;
}

int ck_template_parse_json(const void *p, size_t n, struct ck_template *t, struct ck_err *err)
{
    CK_CLEAN_JSON json_t *j = ck_json_parse_object(p, n, false, err);
    char accel[16], dir[PATH_MAX];
    if (!j)
        return -1;
    const char *magic = ck_json_str(j, "magic", "", NULL);
    long long version = ck_json_int(j, "version", 0, NULL), layout = ck_json_int(j, "layout", 0, NULL);
    if (strcmp(magic, MAGIC))
        return ck_fail(err, 500, "bad_template", "template.json has the magic \"%.32s\" instead of \"%s\"", magic, MAGIC);
    if (version != CK_TEMPLATE_VERSION || layout != CK_VM_LAYOUT_VERSION)
        return ck_fail(err, 500, "bad_template", "it has version %lld.%lld, this cellkeep reads %d.%d", version, layout,
                       CK_TEMPLATE_VERSION, CK_VM_LAYOUT_VERSION);
    if (take_text(j, "image", t->image, sizeof t->image, err) || take_text(j, "qemu", t->qemu, sizeof t->qemu, err) ||
        take_text(j, "qemu_path", t->qemu_path, sizeof t->qemu_path, err) || take_text(j, "cpu", t->cpu, sizeof t->cpu, err) ||
        take_text(j, "accel", accel, sizeof accel, err) || take_text(j, "dir", dir, sizeof dir, err))
        return -1;
    int64_t memory = ck_json_int(j, "memory_mb", 0, NULL), state = ck_json_int(j, "state_bytes", 0, NULL);
    int64_t khz = ck_json_int(j, "tsc_khz", 0, NULL), disk = ck_json_int(j, "disk_file_bytes", 0, NULL);
    int64_t blank = ck_json_int(j, "blank_file_bytes", 0, NULL);
    if (!ck_vm_accel_from_name(accel, &t->accel) || memory < CK_MEMORY_MB_MIN || memory > CK_MEMORY_MB_MAX || state <= 0 ||
        disk <= 0 || blank <= 0 || khz < 0 || khz > UINT32_MAX || strspn(t->image, "0123456789abcdef") != strlen(t->image))
        return ck_fail(err, 500, "bad_template", "template.json has a field out of range");
    if (strcmp(dir, t->dir)) // blank.qcow2 names its backing file by absolute path
        return ck_fail(err, 500, "bad_template", "it was built in another place (%.200s)", dir);
    t->memory_mb = (unsigned)memory;
    t->state_bytes = (uint64_t)state;
    t->disk_file_bytes = (uint64_t)disk;
    t->blank_file_bytes = (uint64_t)blank;
    t->tsc_khz = (uint32_t)khz;
    t->created_us = ck_json_int(j, "created_us", 0, NULL);
    return 0;
}

static int need_file(const char *dir, const char *name, uint64_t bytes, struct ck_err *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (ck_path(path, sizeof path, err, "%s/%s", dir, name))
        return -1;
    if (stat(path, &st))
        return ck_fail_errno(err, errno, 500, "bad_template", "no %s", name);
    if (!S_ISREG(st.st_mode) || st.st_size == 0 || (bytes && (uint64_t)st.st_size != bytes))
        return ck_fail(err, 500, "bad_template", "%s has %lld bytes instead of %llu", name, (long long)st.st_size,
                       (unsigned long long)bytes);
    return 0;
}

static int need_qcow2(const char *dir, const char *name, uint64_t bytes, struct ck_err *err)
{
    char path[PATH_MAX], magic[4];
    if (need_file(dir, name, bytes, err) || ck_path(path, sizeof path, err, "%s/%s", dir, name))
        return -1;
    CK_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, magic, 4) != 4 || memcmp(magic, "QFI\xfb", 4))
        return ck_fail(err, 500, "bad_template", "%s is not a qcow2 image", name);
    return 0;
}

static int load(struct ck_template *t, const char *image_dir, struct ck_err *err)
{
    char path[PATH_MAX];
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (ck_path(path, sizeof path, err, "%s/template.json", t->dir) || ck_read_file(path, JSON_MAX, &b, err) ||
        ck_template_parse_json(b.p, b.n, t, err) || need_file(t->dir, "ram", ck_template_ram_bytes(t), err) ||
        need_file(t->dir, "state", t->state_bytes, err) || need_qcow2(t->dir, "disk.qcow2", t->disk_file_bytes, err) ||
        need_qcow2(t->dir, "blank.qcow2", t->blank_file_bytes, err))
        return -1;
    int rc = image_dir ? ck_path(path, sizeof path, err, "%s", image_dir)
                       : ck_path(path, sizeof path, err, "%s/../../images/%s", t->dir, t->image);
    if (rc)
        return rc;
    if (!realpath(path, t->image_dir))
        return ck_fail_errno(err, errno, 500, "bad_template", "its guest image %.300s", path);
    return need_file(t->image_dir, "root.erofs", 0, err);
}

int ck_template_load(const char *dir, const char *image_dir, struct ck_template *out, struct ck_err *err)
{
    *out = (struct ck_template){.memory_mb = 0};
    if (!realpath(dir, out->dir))
        return ck_fail_errno(err, errno, 500, "bad_template", "cannot open the template %s, run `cellkeep template build`", dir);
    const char *base = strrchr(out->dir, '/') + 1;
    if (strlen(base) >= sizeof out->hash)
        return ck_fail(err, 500, "bad_template", "%s is not a template's folder", out->dir);
    snprintf(out->hash, sizeof out->hash, "%s", base);
    struct ck_err inner = CK_ERR_INIT;
    if (load(out, image_dir, &inner))
        return ck_fail(err, 500, "bad_template", "the template %.150s cannot be used: %.200s; " TO_DO, out->dir, inner.text);
    return 0;
}

int ck_template_open_state(const struct ck_template *t, int *out, struct ck_err *err)
{
    char path[PATH_MAX];
    if (ck_path(path, sizeof path, err, "%s/state", t->dir))
        return -1;
    *out = open(path, O_RDONLY | O_CLOEXEC);
    return *out < 0 ? ck_fail_errno(err, errno, 500, "bad_template", "cannot open %s", path) : 0;
}

int ck_template_make_disk(const struct ck_template *t, const char *path, struct ck_err *err)
{
    char blank[PATH_MAX];
    if (ck_path(blank, sizeof blank, err, "%s/blank.qcow2", t->dir))
        return -1;
    return ck_disk_copy(blank, path, err);
}
