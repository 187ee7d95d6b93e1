// The folder of a layer: layer.json, what must fit for a restore, opening, verifying. Must never accept
// a layer that this template's VM would not continue exactly: a wrong page is found by nobody later.
#include "vmm/layer_file.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "common/ck_time.h"
#include "vmm/layer_index.h"
#include "vmm/layer_qcow2.h"
#include "vmm/layer_sum.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "cellkeep-layer"
#define STATE_MAX (64ull << 20) // a device state has some 20 KiB

void ck_layer_describe(struct ck_layer_info *info, const struct ck_template *t)
{
    memcpy(info->template, t->hash, sizeof info->template);
    memcpy(info->image, t->image, sizeof info->image);
    memcpy(info->qemu, t->qemu, sizeof info->qemu);
    memcpy(info->cpu, t->cpu, sizeof info->cpu);
    info->template_us = t->created_us;
    info->accel = t->accel;
    info->memory_mb = t->memory_mb;
    info->layout = CK_VM_LAYOUT_VERSION;
}

// ---- layer.json -------------------------------------------------------------------------------

static json_t *file_json(const struct ck_layer_file *f)
{
    return json_pack("{s:I, s:s}", "bytes", (json_int_t)f->bytes, "sum", f->sum);
}

int ck_layer_print_json(const struct ck_layer_info *i, struct ck_buf *out)
{
    json_t *below = json_array();
    for (int n = 0; n < i->nbelow; n++)
        json_array_append_new(below, json_string(i->below[n]));
    CK_CLEAN_JSON json_t *j = json_pack(
        "{s:s, s:i, s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:{s:I, s:I}, s:{s:o, s:o, s:o}, s:o}", "magic",
        MAGIC, "version", CK_LAYER_VERSION, "id", i->id, "template", i->template, "template_us",
        (json_int_t)i->template_us, "image", i->image, "qemu", i->qemu, "accel", ck_vm_accel_name(i->accel), "cpu",
        i->cpu, "memory_mb", (int)i->memory_mb, "layout", i->layout, "created_us", (json_int_t)i->created_us, "pages",
        "data", (json_int_t)i->data_pages, "zero", (json_int_t)i->zero_pages, "files", "ram", file_json(&i->ram),
        "state", file_json(&i->state), "disk.qcow2", file_json(&i->disk), "below", below);
    return j && !ck_json_dump(j, out) && !ck_buf_add_str(out, "\n") ? 0 : -1;
}

static int bad(struct ck_err *err, const char *what)
{
    return ck_fail(err, 422, "bad_layer", "layer.json cannot be used: %s", what);
}

static int take_text(const json_t *j, const char *key, char *out, size_t room, struct ck_err *err)
{
    const char *s = ck_json_str(j, key, "", NULL);
    if (!*s || strlen(s) >= room)
        return ck_fail(err, 422, "bad_layer", "layer.json has no usable \"%s\"", key);
    memcpy(out, s, strlen(s) + 1);
    return 0;
}

static int take_file(const json_t *files, const char *name, struct ck_layer_file *out, struct ck_err *err)
{
    const json_t *f = ck_json_obj(files, name, NULL);
    int64_t bytes = f ? ck_json_int(f, "bytes", 0, NULL) : 0;
    if (bytes <= 0 || take_text(f, "sum", out->sum, sizeof out->sum, NULL) || strlen(out->sum) != sizeof out->sum - 1)
        return ck_fail(err, 422, "bad_layer", "layer.json does not describe the file \"%s\"", name);
    out->bytes = (uint64_t)bytes;
    return 0;
}

static int take_below(const json_t *j, struct ck_layer_info *out, struct ck_err *err)
{
    const json_t *list = json_object_get(j, "below");
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > CK_LAYER_DISKS_MAX - 1)
        return bad(err, "\"below\" is no list, or too long");
    for (size_t i = 0; i < n; i++) {
        const char *id = json_string_value(json_array_get(list, i));
        if (!id || !ck_uuid_valid(id))
            return bad(err, "\"below\" names something that is no layer");
        memcpy(out->below[i], id, CK_UUID_MAX);
    }
    out->nbelow = (int)n;
    return 0;
}

static int take_numbers(const json_t *j, struct ck_layer_info *out, struct ck_err *err)
{
    const json_t *pages = ck_json_obj(j, "pages", NULL);
    int64_t memory = ck_json_int(j, "memory_mb", 0, NULL), layout = ck_json_int(j, "layout", -1, NULL);
    int64_t data = pages ? ck_json_int(pages, "data", -1, NULL) : -1,
            zero = pages ? ck_json_int(pages, "zero", -1, NULL) : -1;
    if (memory < CK_MEMORY_MB_MIN || memory > CK_MEMORY_MB_MAX || layout < 0 || layout > INT32_MAX)
        return bad(err, "\"memory_mb\" or \"layout\" is out of range");
    int64_t guest = (memory << 20) / CK_PAGE;
    if (data < 0 || zero < 0 || data > guest || zero > guest - data)
        return bad(err, "\"pages\" is out of range");
    out->memory_mb = (unsigned)memory;
    out->layout = (int)layout;
    out->data_pages = (uint64_t)data;
    out->zero_pages = (uint64_t)zero;
    out->template_us = ck_json_int(j, "template_us", 0, NULL);
    out->created_us = ck_json_int(j, "created_us", 0, NULL);
    return 0;
}

int ck_layer_parse_json(const void *p, size_t n, struct ck_layer_info *out, struct ck_err *err)
{
    struct ck_err e = CK_ERR_INIT;
    char accel[16];
    *out = (struct ck_layer_info){.nbelow = 0};
    CK_CLEAN_JSON json_t *j = n <= CK_LAYER_JSON_MAX ? ck_json_parse_object(p, n, false, &e) : NULL;
    if (!j)
        return bad(err, e.status ? e.text : "it is too long");
    const char *magic = ck_json_str(j, "magic", "", NULL);
    long long version = ck_json_int(j, "version", 0, NULL);
    if (strcmp(magic, MAGIC) != 0)
        return ck_fail(err, 422, "bad_layer", "layer.json has the magic \"%.32s\" instead of \"%s\"", magic, MAGIC);
    if (version != CK_LAYER_VERSION)
        return ck_fail(err, 422, "bad_layer", "the layer has version %lld, this cellkeep reads %d", version,
                       CK_LAYER_VERSION);
    const json_t *files = ck_json_obj(j, "files", NULL);
    if (take_text(j, "id", out->id, sizeof out->id, err) ||
        take_text(j, "template", out->template, sizeof out->template, err) ||
        take_text(j, "image", out->image, sizeof out->image, err) ||
        take_text(j, "qemu", out->qemu, sizeof out->qemu, err) || take_text(j, "cpu", out->cpu, sizeof out->cpu, err) ||
        take_text(j, "accel", accel, sizeof accel, err) || take_numbers(j, out, err) ||
        take_file(files, "ram", &out->ram, err) || take_file(files, "state", &out->state, err) ||
        take_file(files, "disk.qcow2", &out->disk, err) || take_below(j, out, err))
        return -1;
    if (!ck_uuid_valid(out->id) || !ck_vm_accel_from_name(accel, &out->accel) || out->state.bytes > STATE_MAX)
        return bad(err, "a field is out of range");
    return 0;
}

// ---- what fits --------------------------------------------------------------------------------

static int differs(struct ck_err *err, const char *what, const char *layer, const char *here)
{
    return ck_fail(err, 409, "layer_mismatch", "the layer is of another %s: %.120s there, %.120s here", what, layer,
                   here);
}

int ck_layer_check(const struct ck_layer_info *i, const struct ck_template *t, struct ck_err *err)
{
    if (strcmp(i->qemu, t->qemu) != 0)
        return differs(err, "QEMU", i->qemu, t->qemu);
    if (i->accel != t->accel)
        return differs(err, "accelerator", ck_vm_accel_name(i->accel), ck_vm_accel_name(t->accel));
    if (strcmp(i->cpu, t->cpu) != 0)
        return differs(err, "CPU model", i->cpu, t->cpu);
    if (i->memory_mb != t->memory_mb)
        return ck_fail(err, 409, "layer_mismatch",
                       "the layer is of a VM with another memory size: %u MiB there, %u MiB here", i->memory_mb,
                       t->memory_mb);
    if (strcmp(i->image, t->image) != 0)
        return differs(err, "guest image", i->image, t->image);
    if (i->layout != CK_VM_LAYOUT_VERSION)
        return ck_fail(err, 409, "layer_mismatch", "the layer is of another list of devices: version %d there, %d here",
                       i->layout, CK_VM_LAYOUT_VERSION);
    if (strcmp(i->template, t->hash) != 0)
        return differs(err, "template", i->template, t->hash);
    if (i->template_us != t->created_us)
        return ck_fail(err, 409, "layer_mismatch",
                       "template %s was built again after the layer was made, its memory is another", t->hash);
    return 0;
}

// ---- opening ----------------------------------------------------------------------------------

void ck_layer_close(struct ck_layer *l)
{
    if (l->ram >= 0)
        close(l->ram);
    if (l->state >= 0)
        close(l->state);
    for (int i = 0; i < l->ndisk; i++)
        if (l->disk[i] >= 0)
            close(l->disk[i]);
    *l = (struct ck_layer)CK_LAYER_INIT;
}

static int check_size(int fd, const char *name, uint64_t bytes, struct ck_err *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return ck_fail_errno(err, errno, 422, "bad_layer", "the layer's %s cannot be read", name);
    if (!S_ISREG(st.st_mode) || (bytes && (uint64_t)st.st_size != bytes))
        return ck_fail(err, 422, "bad_layer", "the layer's %s has %lld bytes instead of %llu", name,
                       (long long)st.st_size, (unsigned long long)bytes);
    return 0;
}

static int check_disk(int fd, uint64_t bytes, uint64_t *size, struct ck_err *err)
{
    uint8_t head[CK_QCOW2_HEADER];
    uint64_t this_size;
    if (check_size(fd, "disk", bytes, err))
        return -1;
    if (pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head)
        return ck_fail(err, 422, "bad_layer", "the layer's disk is cut short");
    if (ck_qcow2_check(head, &this_size, err))
        return -1;
    if (*size && this_size != *size)
        return ck_fail(err, 422, "bad_layer", "the layer's disk has another size than the one below it");
    *size = this_size;
    return 0;
}

static int check_files(struct ck_layer *l, struct ck_err *err)
{
    uint8_t tail[CK_RAM_TAIL];
    struct ck_ram_tail t;
    l->disk_size = 0;
    if (l->ndisk != l->info.nbelow + 1)
        return ck_fail(err, 422, "bad_layer", "the layer needs %d disks, there are %d", l->info.nbelow + 1, l->ndisk);
    if (check_size(l->ram, "memory", l->info.ram.bytes, err) ||
        check_size(l->state, "device state", l->info.state.bytes, err))
        return -1;
    if (pread(l->ram, tail, sizeof tail, (off_t)l->info.ram.bytes - CK_RAM_TAIL) != (ssize_t)sizeof tail)
        return ck_fail(err, 422, "bad_layer", "the layer's memory is cut short");
    if (ck_ram_parse_tail(tail, l->info.ram.bytes, ((uint64_t)l->info.memory_mb << 20) / CK_PAGE, &t, err))
        return -1;
    for (int i = 0; i < l->ndisk; i++)
        if (check_disk(l->disk[i], i ? 0 : l->info.disk.bytes, &l->disk_size, err))
            return -1;
    return 0;
}

static int read_json(int fd, struct ck_layer_info *out, struct ck_err *err)
{
    CK_CLEAN_FREE char *text = malloc(CK_LAYER_JSON_MAX + 1);
    if (!text)
        return ck_fail(err, 500, "no_memory", "no memory to read layer.json");
    ssize_t n = pread(fd, text, CK_LAYER_JSON_MAX + 1, 0);
    if (n < 0)
        return ck_fail_errno(err, errno, 422, "bad_layer", "layer.json cannot be read");
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
    return ck_layer_parse_json(text, (size_t)n, out, err);
}

int ck_layer_take(int json, int ram, int state, const int *disk, int ndisk, struct ck_layer *out, struct ck_err *err)
{
    *out = (struct ck_layer)CK_LAYER_INIT;
    CK_CLEAN_FD int json_fd = json;
    out->ram = ram;
    out->state = state;
    for (int i = 0; i < ndisk; i++)
        if (out->ndisk < CK_LAYER_DISKS_MAX)
            out->disk[out->ndisk++] = disk[i];
        else
            close(disk[i]);
    int rc = ndisk > CK_LAYER_DISKS_MAX
                 ? ck_fail(err, 422, "bad_layer", "a layer has at most %d disks, not %d", CK_LAYER_DISKS_MAX, ndisk)
                 : 0;
    if (rc || read_json(json_fd, &out->info, err) || check_files(out, err)) {
        ck_layer_close(out);
        return -1;
    }
    return 0;
}

// A path of a file in a layer's folder, never through a link of the last two names.
static int open_in(int dir, const char *folder, const char *name, struct ck_err *err)
{
    CK_CLEAN_FD int at = openat(dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int fd = at < 0 ? -1 : openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && err)
        return ck_fail_errno(err, errno, errno == ENOENT ? 404 : 422, errno == ENOENT ? "no_such_layer" : "bad_layer",
                             "layer %s has no %s that can be read", folder, name);
    return fd;
}

static int open_disks(int dir, struct ck_layer *l, struct ck_err *err)
{
    const struct ck_layer_info *i = &l->info;
    if ((l->disk[l->ndisk++] = open_in(dir, i->id, "disk.qcow2", err)) < 0)
        return -1;
    for (int n = 0; n < i->nbelow; n++) {
        char name[CK_UUID_MAX + 8];
        snprintf(name, sizeof name, "%s.qcow2", i->below[n]);
        int fd = open_in(dir, i->id, name, NULL);
        if (fd < 0 && (fd = open_in(dir, i->below[n], "disk.qcow2", err)) < 0)
            return -1;
        l->disk[l->ndisk++] = fd;
    }
    return 0;
}

int ck_layer_open(const char *dir, const char *id, struct ck_layer *out, struct ck_err *err)
{
    *out = (struct ck_layer)CK_LAYER_INIT;
    if (!ck_uuid_valid(id))
        return ck_fail(err, 400, "bad_layer_id", "a layer's name is a uuid");
    CK_CLEAN_FD int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return ck_fail_errno(err, errno, errno == ENOENT ? 404 : 422, errno == ENOENT ? "no_such_layer" : "bad_layer",
                             "the folder of layers cannot be opened");
    CK_CLEAN_FD int json = open_in(at, id, "layer.json", err);
    if (json < 0 || read_json(json, &out->info, err))
        return -1;
    if (strcmp(out->info.id, id) != 0)
        return ck_fail(err, 422, "bad_layer", "layer.json in the folder of %s is of %s", id, out->info.id);
    if ((out->ram = open_in(at, id, "ram", err)) < 0 || (out->state = open_in(at, id, "state", err)) < 0 ||
        open_disks(at, out, err) || check_files(out, err)) {
        ck_layer_close(out);
        return -1;
    }
    return 0;
}

// ---- sums and files ---------------------------------------------------------------------------

int ck_layer_sum_file(int fd, int64_t deadline, struct ck_layer_file *out, struct ck_err *err)
{
    CK_CLEAN_SUM struct ck_sum *sum = NULL;
    CK_CLEAN_FREE uint8_t *chunk = malloc(CK_LAYER_FILE_CHUNK);
    if (!chunk || ck_sum_new(&sum, err))
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): clang 14 does not know the cleanup attribute
        return ck_fail(err, 500, "no_memory", "no memory for a checksum");
    out->bytes = 0;
    for (;;) {
        ssize_t n = pread(fd, chunk, CK_LAYER_FILE_CHUNK, (off_t)out->bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ck_fail_errno(err, errno, 422, "bad_layer", "a file of the layer cannot be read");
        if (!n)
            return ck_sum_end(sum, out->sum, err);
        if (ck_mono_ms() > deadline)
            return ck_fail(err, 504, "timeout", "the layer's files were not read in time");
        if (ck_sum_add(sum, chunk, (size_t)n, err))
            return -1;
        out->bytes += (uint64_t)n;
    }
}

int ck_layer_put_file(int dirfd, const char *name, const void *p, size_t n, struct ck_layer_file *file,
                      struct ck_err *err)
{
    CK_CLEAN_SUM struct ck_sum *sum = NULL;
    CK_CLEAN_FD int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ck_write_all(fd, p, n) || fsync(fd))
        return ck_fail_errno(err, errno, errno == ENOSPC ? 507 : 500, errno == ENOSPC ? "no_space" : "cannot_write",
                             "cannot write %s of a layer", name);
    if (!file)
        return 0;
    file->bytes = n;
    return ck_sum_new(&sum, err) || ck_sum_add(sum, p, n, err) ? -1 : ck_sum_end(sum, file->sum, err);
}

static int verify_file(int fd, const char *name, const struct ck_layer_file *want, struct ck_err *err)
{
    struct ck_layer_file is;
    if (ck_layer_sum_file(fd, INT64_MAX, &is, err))
        return -1;
    if (is.bytes != want->bytes || strcmp(is.sum, want->sum) != 0)
        return ck_fail(err, 422, "bad_layer", "the layer's %s is damaged: its checksum is another", name);
    return 0;
}

int ck_layer_verify(const struct ck_layer *l, struct ck_err *err)
{
    return verify_file(l->ram, "memory", &l->info.ram, err) ||
                   verify_file(l->state, "device state", &l->info.state, err) ||
                   verify_file(l->disk[0], "disk", &l->info.disk, err)
               ? -1
               : 0;
}
