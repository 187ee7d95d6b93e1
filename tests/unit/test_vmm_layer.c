// Layers without a VM: the bytes of their files, what is refused, and memory copied between two
// processes that map one memfd as QEMUs map their template's.
#include "common/ck_fs.h"
#include "vmm/layer_file.h"
#include "vmm/layer_index.h"
#include "vmm/layer_qcow2.h"
#include "vmm/layer_ram.h"
#include "vmm/layer_sum.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ID "11111111-2222-4333-8444-555555555555"
#define BELOW "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
#define SUM "00112233445566778899aabbccddeeff"

static struct ck_layer_info some_info(void)
{
    struct ck_layer_info i = {.id = ID,
                              .template = "535db561",
                              .template_us = 17,
                              .image = "4f2d62c2",
                              .qemu = "7.2.22 (Debian)",
                              .cpu = "Nehalem,+rdrand",
                              .accel = CK_ACCEL_TCG,
                              .memory_mb = 512,
                              .layout = CK_VM_LAYOUT_VERSION,
                              .created_us = 99,
                              .data_pages = 3,
                              .zero_pages = 2,
                              .ram = {4096 * 3 + 16 + 64, SUM},
                              .state = {20000, SUM},
                              .disk = {200000, SUM},
                              .nbelow = 1,
                              .below = {BELOW}};
    return i;
}

static struct ck_template fitting(void)
{
    struct ck_layer_info i = some_info();
    struct ck_template t = {.accel = i.accel, .memory_mb = i.memory_mb, .created_us = i.template_us};
    memcpy(t.hash, i.template, sizeof t.hash);
    memcpy(t.image, i.image, sizeof t.image);
    memcpy(t.qemu, i.qemu, sizeof t.qemu);
    memcpy(t.cpu, i.cpu, sizeof t.cpu);
    return t;
}

// ---- layer.json -------------------------------------------------------------------------------

static void layer_json_says_all_of_it_and_comes_back(void **state)
{
    (void)state;
    struct ck_layer_info i = some_info(), back;
    struct ck_buf b = CK_BUF_INIT, again = CK_BUF_INIT;
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(ck_layer_print_json(&i, &b), 0);
    assert_int_equal(ck_layer_parse_json(b.p, b.n, &back, &e), 0);
    assert_string_equal(back.id, ID);
    assert_string_equal(back.below[0], BELOW);
    assert_string_equal(back.disk.sum, SUM);
    assert_int_equal(back.data_pages, 3);
    assert_int_equal(ck_layer_print_json(&back, &again), 0);
    assert_int_equal(b.n, again.n);
    assert_memory_equal(b.p, again.p, b.n);
    ck_buf_free(&b);
    ck_buf_free(&again);
}

// Replaces what in the text of a good layer.json and expects the refusal to name it.
static void refused(const char *what, const char *by, const char *named)
{
    struct ck_layer_info i = some_info(), back;
    struct ck_buf b = CK_BUF_INIT, bad = CK_BUF_INIT;
    struct ck_err e = CK_ERR_INIT;
    assert_int_equal(ck_layer_print_json(&i, &b), 0);
    assert_int_equal(ck_buf_add(&b, "", 1), 0);
    char *at = strstr((char *)b.p, what);
    assert_non_null(at);
    ck_buf_add(&bad, b.p, (size_t)(at - (char *)b.p));
    ck_buf_add_str(&bad, by);
    ck_buf_add_str(&bad, at + strlen(what));
    assert_true(ck_layer_parse_json(bad.p, bad.n, &back, &e) < 0);
    assert_string_equal(e.reason, "bad_layer");
    if (!strstr(e.text, named))
        fail_msg("\"%s\" does not name %s", e.text, named);
    ck_buf_free(&b);
    ck_buf_free(&bad);
}

static void a_layer_json_that_is_wrong_anywhere_is_refused(void **state)
{
    (void)state;
    refused("cellkeep-layer", "cellkeep-template", "magic");
    refused("\"version\":1", "\"version\":2", "version 2");
    refused(ID, "../../etc", "range");
    refused(BELOW, "../../../../../etc/shadow", "below");
    refused("\"accel\":\"tcg\"", "\"accel\":\"xen\"", "range");
    refused("\"memory_mb\":512", "\"memory_mb\":0", "memory_mb");
    refused("\"data\":3", "\"data\":-1", "pages");
    refused("\"data\":3", "\"data\":131072", "pages");
    refused("\"bytes\":20000", "\"bytes\":0", "state");
    refused("\"bytes\":20000", "\"bytes\":99999999999", "range");
    refused(SUM, "0011", "ram");
    refused("{\"magic\"", "{\"magic\":\"x\",\"magic\"", "layer.json");
    refused("}}", "}", "layer.json");
}

static void mismatch(struct ck_template t, const char *named)
{
    struct ck_layer_info i = some_info();
    struct ck_err e = CK_ERR_INIT;
    assert_true(ck_layer_check(&i, &t, &e) < 0);
    assert_string_equal(e.reason, "layer_mismatch");
    assert_int_equal(e.status, 409);
    if (!strstr(e.text, named))
        fail_msg("\"%s\" does not name %s", e.text, named);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    struct ck_layer_info i = some_info();
    struct ck_template t = fitting();
    assert_int_equal(ck_layer_check(&i, &t, NULL), 0);
    snprintf(t.qemu, sizeof t.qemu, "8.0");
    mismatch(t, "QEMU: 7.2.22 (Debian) there, 8.0 here");
    t = fitting();
    t.accel = CK_ACCEL_KVM;
    mismatch(t, "accelerator: tcg there, kvm here");
    t = fitting();
    snprintf(t.cpu, sizeof t.cpu, "max");
    mismatch(t, "CPU model");
    t = fitting();
    t.memory_mb = 1024;
    mismatch(t, "memory size: 512 MiB there, 1024 MiB here");
    t = fitting();
    snprintf(t.image, sizeof t.image, "0");
    mismatch(t, "guest image");
    t = fitting();
    snprintf(t.hash, sizeof t.hash, "0");
    mismatch(t, "another template");
    t = fitting();
    t.created_us = 18; // same name, other memory: the worst, since nothing else would show it
    mismatch(t, "built again");
}

// ---- the memory's index -----------------------------------------------------------------------

static void an_index_comes_back_and_what_lies_outside_is_refused(void **state)
{
    (void)state;
    struct ck_ram_tail t = {.guest_pages = 100, .data_pages = 5, .zero_pages = 4, .index_at = 5 * 4096, .ranges = 3},
                       back;
    uint8_t tail[CK_RAM_TAIL], index[3 * CK_RAM_RANGE];
    const uint64_t size = 5 * 4096 + sizeof index + sizeof tail;
    ck_ram_print_tail(&t, tail);
    assert_int_equal(ck_ram_parse_tail(tail, size, 100, &back, NULL), 0);
    assert_memory_equal(&back, &t, sizeof t);
    assert_true(ck_ram_parse_tail(tail, size - 1, 100, &back, NULL) < 0);
    assert_true(ck_ram_parse_tail(tail, size + 1, 100, &back, NULL) < 0);
    assert_true(ck_ram_parse_tail(tail, size, 99, &back, NULL) < 0);
    const struct ck_ram_range good[] = {{0, 2, false}, {2, 4, true}, {97, 3, false}};
    for (int i = 0; i < 3; i++)
        ck_ram_print_range(good[i], index + i * CK_RAM_RANGE);
    assert_int_equal(ck_ram_check_index(&t, index, NULL), 0);
    const struct ck_ram_range bad[] = {{98, 3, false}, {5, 3, false},          {97, 0, false},
                                       {97, 3, true},  {UINT32_MAX, 3, false}, {97, CK_RAM_COUNT_MAX, false}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_ram_print_range(bad[i], index + 2 * CK_RAM_RANGE);
        assert_true(ck_ram_check_index(&t, index, NULL) < 0);
    }
}

static void every_byte_of_the_tail_matters(void **state)
{
    (void)state;
    struct ck_ram_tail t = {.guest_pages = 100, .data_pages = 5, .index_at = 5 * 4096, .ranges = 1}, back;
    uint8_t tail[CK_RAM_TAIL];
    for (int i = 0; i < CK_RAM_TAIL; i++) {
        ck_ram_print_tail(&t, tail);
        tail[i] ^= 0x40;
        if (i >= 32 && i < 40) // zero pages: the index is compared with them
            continue;
        assert_true(ck_ram_parse_tail(tail, 5 * 4096 + CK_RAM_RANGE + CK_RAM_TAIL, 100, &back, NULL) < 0);
    }
}

// ---- the kernel's words -----------------------------------------------------------------------

static void the_mapping_of_a_file_is_found_in_maps(void **state)
{
    (void)state;
    struct ck_area a[CK_AREAS_MAX];
    const dev_t dev = makedev(0, 1);
    const char *one = "55d0-55e0 r--p 00000000 fe:00 12 /usr/bin/q\n7f0000000000-7f0000004000 rw-p 00000000 00:01 2072 "
                      "   /memfd:ram (deleted)\n";
    assert_int_equal(ck_maps_find(one, dev, 2072, 0x4000, a), 1);
    assert_true(a[0].start == 0x7f0000000000 && a[0].bytes == 0x4000 && a[0].offset == 0);
    assert_true(ck_maps_find(one, dev, 2073, 0x4000, a) < 0);
    assert_true(ck_maps_find(one, makedev(0, 2), 2072, 0x4000, a) < 0);
    assert_true(ck_maps_find(one, dev, 2072, 0x5000, a) < 0); // not all of it
    assert_true(ck_maps_find(one, dev, 2072, 0x3000, a) < 0); // more than it
    const char *split = "1000-3000 rw-p 00000000 00:01 5 /m\n3000-5000 r--p 00002000 00:01 5 /m\n";
    assert_int_equal(ck_maps_find(split, dev, 5, 0x4000, a), 2);
    assert_true(a[1].start == 0x3000 && a[1].offset == 0x2000);
    const char *hole = "1000-2000 rw-p 00000000 00:01 5 /m\n3000-5000 rw-p 00002000 00:01 5 /m\n";
    assert_true(ck_maps_find(hole, dev, 5, 0x4000, a) < 0);
    assert_true(ck_maps_find("1000-5000 rw-s 00000000 00:01 5 /m\n", dev, 5, 0x4000, a) < 0); // shared is nobody's own
    const char *const broken[] = {"",
                                  "x",
                                  "1000",
                                  "1000-",
                                  "1000-500 rw-p 0 0:1 5",
                                  "1000-5000 rw-p",
                                  "1000-5000 rw-p 0 0:1",
                                  "1000-5000 rw-p 0 0:1 x",
                                  "-1-5000 rw-p 0 0:1 5"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_true(ck_maps_find(broken[i], dev, 5, 0x4000, a) < 0);
}

static void runs_of_own_pages_join_across_pieces(void **state)
{
    (void)state;
    const uint64_t own = 1ull << 63, swapped = 1ull << 62, file = own | 1ull << 61, none = 0;
    const uint64_t words[] = {none, own, swapped, file, own};
    struct ck_buf b = CK_BUF_INIT;
    uint64_t pages = 0;
    assert_int_equal(ck_pagemap_runs(words, 5, 0, &b, &pages), 0);
    assert_int_equal(ck_pagemap_runs(words + 1, 2, 5, &b, &pages), 0);
    const struct ck_run want[] = {{1, 2}, {4, 3}};
    assert_int_equal(pages, 5);
    assert_int_equal(b.n, sizeof want);
    assert_memory_equal(b.p, want, sizeof want);
    ck_buf_free(&b);
}

// ---- disks ------------------------------------------------------------------------------------

static void qcow2(uint8_t h[CK_QCOW2_HEADER])
{
    memset(h, 0, CK_QCOW2_HEADER);
    memcpy(h, "QFI\xfb\0\0\0\3", 8);
    h[27] = 1; // size: 4 GiB
    h[103] = 112;
}

static void a_disk_that_would_open_something_else_is_refused(void **state)
{
    (void)state;
    uint8_t h[CK_QCOW2_HEADER];
    uint64_t size;
    struct ck_err e = CK_ERR_INIT;
    qcow2(h);
    assert_int_equal(ck_qcow2_check(h, &size, NULL), 0);
    assert_true(size == 1ull << 32);
    const struct {
        int at, value;
        const char *named;
    } bad[] = {{0, 'q', "not a qcow2"}, {7, 2, "version 3"},   {35, 1, "encrypted"},       {79, 4, "another file"},
               {79, 2, "corrupt"},      {79, 16, "not known"}, {72, 128, "not known"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qcow2(h);
        h[bad[i].at] = (uint8_t)bad[i].value;
        assert_true(ck_qcow2_check(h, &size, &e) < 0);
        assert_string_equal(e.reason, "bad_layer");
        assert_non_null(strstr(e.text, bad[i].named));
    }
}

static void a_checksum_is_of_all_bytes_and_their_order(void **state)
{
    (void)state;
    struct ck_sum *s;
    char one[CK_LAYER_SUM_MAX], two[CK_LAYER_SUM_MAX];
    assert_int_equal(ck_sum_new(&s, NULL), 0);
    assert_int_equal(ck_sum_add(s, "hello, ", 7, NULL), 0);
    assert_int_equal(ck_sum_add(s, "layer", 5, NULL), 0);
    assert_int_equal(ck_sum_end(s, one, NULL), 0);
    ck_sum_free(s);
    // A sum on disk is read by later versions: it must stay what it is.
    assert_string_equal(one, "e82782543db340dd4a8e9e35bd846299");
    assert_int_equal(ck_sum_new(&s, NULL), 0);
    assert_int_equal(ck_sum_add(s, "hello, layes", 12, NULL), 0);
    assert_int_equal(ck_sum_end(s, two, NULL), 0);
    ck_sum_free(s);
    assert_string_not_equal(one, two);
}

// ---- memory -----------------------------------------------------------------------------------

#define PAGES 600u
#define DEADLINE INT64_MAX

struct pair {
    int ram, file;
    pid_t source, target;
    struct ck_ram s, t;
    struct ck_layer_info info;
};

// Page i of the template is i's digits, every third is zero.
static void fill(char *p, unsigned i) { snprintf(p, 64, i % 3 ? "template %u" : "", i); }

static pid_t process(int ram, bool dirty)
{
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char *p = mmap(NULL, (size_t)PAGES * CK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, ram, 0);
        for (unsigned i = 0; dirty && i < PAGES; i++) {
            char *page = p + (size_t)i * CK_PAGE;
            if (i % 7 == 1)
                snprintf(page, 64, "mine %u", i); // its own
            else if (i % 7 == 2)
                memset(page, 0, CK_PAGE); // its own, all zero
            else if (i % 7 == 3)
                *(volatile char *)page = *page; // its own, and what it was
        }
        if (!dirty)
            snprintf(p + (size_t)4 * CK_PAGE, 64, "stale"); // in no layer: must go
        _exit(write(ready[1], "", 1) == 1 ? (pause(), 0) : 1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

static void pair_begin(struct pair *p)
{
    char page[CK_PAGE] = {0};
    memset(p, 0, sizeof *p);
    p->ram = memfd_create("ram", MFD_CLOEXEC);
    p->file = memfd_create("layer", MFD_CLOEXEC);
    assert_int_equal(ftruncate(p->ram, (off_t)PAGES * CK_PAGE), 0);
    for (unsigned i = 0; i < PAGES; i++) {
        fill(page, i);
        if (i % 3)
            assert_int_equal(pwrite(p->ram, page, sizeof page, (off_t)i * CK_PAGE), CK_PAGE);
        memset(page, 0, sizeof page);
    }
    p->source = process(p->ram, true);
    p->target = process(p->ram, false);
    assert_int_equal(ck_ram_find(p->source, p->ram, (uint64_t)PAGES * CK_PAGE, &p->s, NULL), 0);
    assert_int_equal(ck_ram_find(p->target, p->ram, (uint64_t)PAGES * CK_PAGE, &p->t, NULL), 0);
}

static void pair_write(struct pair *p)
{
    struct ck_buf runs = CK_BUF_INIT;
    struct ck_ram_writer *w;
    uint64_t pages;
    assert_int_equal(ck_ram_private(&p->s, &runs, &pages, NULL), 0);
    assert_int_equal(pages, PAGES / 7 * 3 + 3);
    char *all = malloc(pages * CK_PAGE);
    assert_int_equal(ck_ram_read(&p->s, (struct ck_run *)(void *)runs.p, runs.n / sizeof(struct ck_run), all, NULL), 0);
    assert_int_equal(ck_ram_writer_new(p->file, p->ram, PAGES, DEADLINE, &w, NULL), 0);
    assert_int_equal(ck_ram_writer_add(w, (struct ck_run *)(void *)runs.p, runs.n / sizeof(struct ck_run), all, NULL),
                     0);
    assert_int_equal(ck_ram_writer_end(w, &p->info, NULL), 0);
    ck_ram_writer_free(w);
    free(all);
    ck_buf_free(&runs);
}

static void pair_end(struct pair *p)
{
    kill(p->source, SIGKILL);
    kill(p->target, SIGKILL);
    waitpid(p->source, NULL, 0);
    waitpid(p->target, NULL, 0);
    close(p->ram);
    close(p->file);
}

static void same_memory(const struct pair *p)
{
    struct ck_run all = {0, PAGES};
    char *a = malloc((size_t)PAGES * CK_PAGE), *b = malloc((size_t)PAGES * CK_PAGE);
    assert_int_equal(ck_ram_read(&p->s, &all, 1, a, NULL), 0);
    assert_int_equal(ck_ram_read(&p->t, &all, 1, b, NULL), 0);
    for (unsigned i = 0; i < PAGES; i++)
        if (memcmp(a + (size_t)i * CK_PAGE, b + (size_t)i * CK_PAGE, CK_PAGE) != 0)
            fail_msg("page %u is \"%.20s\", not \"%.20s\"", i, b + (size_t)i * CK_PAGE, a + (size_t)i * CK_PAGE);
    free(a);
    free(b);
}

static void memory_goes_from_one_process_to_another_and_only_what_differs_is_stored(void **state)
{
    (void)state;
    struct pair p;
    struct ck_err e = CK_ERR_INIT;
    pair_begin(&p);
    pair_write(&p);
    // A page zeroed where the template has none but zeroes is equal, so not stored either.
    unsigned zero = 0, data = 0;
    for (unsigned i = 0; i < PAGES; i++) {
        data += i % 7 == 1;
        zero += i % 7 == 2 && i % 3;
    }
    assert_int_equal(p.info.data_pages, data);
    assert_int_equal(p.info.zero_pages, zero);
    assert_int_equal(p.info.ram.bytes, data * CK_PAGE + (data + zero) * CK_RAM_RANGE + CK_RAM_TAIL);
    assert_int_equal(ck_ram_apply(&p.t, p.file, &p.info.ram, DEADLINE, &e), 0);
    same_memory(&p);
    pair_end(&p);
}

static void memory_that_was_damaged_on_disk_is_never_accepted(void **state)
{
    (void)state;
    struct pair p;
    struct ck_err e = CK_ERR_INIT;
    pair_begin(&p);
    pair_write(&p);
    const uint64_t n = p.info.ram.bytes;
    const uint64_t at[] = {0,      4096 * 3 + 17, p.info.data_pages * CK_PAGE, p.info.data_pages * CK_PAGE + 9,
                           n - 60, n - 1};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        uint8_t was, now;
        assert_int_equal(pread(p.file, &was, 1, (off_t)at[i]), 1);
        now = was ^ 1;
        assert_int_equal(pwrite(p.file, &now, 1, (off_t)at[i]), 1);
        assert_true(ck_ram_apply(&p.t, p.file, &p.info.ram, DEADLINE, &e) < 0);
        assert_string_equal(e.reason, "bad_layer");
        assert_int_equal(pwrite(p.file, &was, 1, (off_t)at[i]), 1);
    }
    struct ck_layer_file wrong = p.info.ram;
    wrong.bytes--;
    assert_true(ck_ram_apply(&p.t, p.file, &wrong, DEADLINE, &e) < 0);
    wrong.bytes = 10;
    assert_true(ck_ram_apply(&p.t, p.file, &wrong, DEADLINE, &e) < 0);
    assert_int_equal(ck_ram_apply(&p.t, p.file, &p.info.ram, 0, &e), -1);
    assert_string_equal(e.reason, "timeout");
    pair_end(&p);
}

static void a_process_that_died_is_an_error_and_nobody_else_s_memory(void **state)
{
    (void)state;
    struct pair p;
    struct ck_err e = CK_ERR_INIT;
    struct ck_buf runs = CK_BUF_INIT;
    struct ck_ram r;
    uint64_t pages;
    pair_begin(&p);
    pair_write(&p);
    kill(p.target, SIGKILL);
    siginfo_t si;
    assert_int_equal(waitid(P_PID, (id_t)p.target, &si, WEXITED | WNOWAIT),
                     0); // dead, not reaped: as a machine keeps it
    assert_true(ck_ram_apply(&p.t, p.file, &p.info.ram, DEADLINE, &e) < 0);
    assert_string_equal(e.reason, "vm_died");
    assert_true(ck_ram_private(&p.t, &runs, &pages, &e) < 0);
    assert_string_equal(e.reason, "vm_died");
    assert_true(ck_ram_find(p.target, p.ram, (uint64_t)PAGES * CK_PAGE, &r, &e) < 0);
    assert_string_equal(e.reason, "vm_died");
    ck_buf_free(&runs);
    pair_end(&p);
}

static void this_host_lets_us_and_the_probe_says_so(void **state)
{
    (void)state;
    struct ck_err e = CK_ERR_INIT;
    if (ck_layer_probe(&e)) { // a policy of this host; then the tests above could not have passed either
        assert_string_equal(e.reason, "no_layers");
        skip();
    }
}

// ---- folders ----------------------------------------------------------------------------------

struct folder {
    char dir[64];
    struct ck_layer_info info;
};

static void put(const struct folder *f, const char *id, const char *name, const void *p, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", f->dir, id);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/%s", f->dir, id, name);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && !ck_write_all(fd, p, n));
    close(fd);
}

static void sum_of(const struct folder *f, const char *name, struct ck_layer_file *out)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s/%s", f->dir, ID, name);
    int fd = open(path, O_RDONLY);
    assert_int_equal(ck_layer_sum_file(fd, INT64_MAX, out, NULL), 0);
    close(fd);
}

static void put_json(struct folder *f)
{
    struct ck_buf b = CK_BUF_INIT;
    assert_int_equal(ck_layer_print_json(&f->info, &b), 0);
    put(f, ID, "layer.json", b.p, b.n);
    ck_buf_free(&b);
}

static void folder_begin(struct folder *f)
{
    uint8_t disk[CK_QCOW2_HEADER], ram[CK_RAM_TAIL];
    memset(f, 0, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "/tmp/ck-layer-test-%d", (int)getpid());
    f->info = some_info();
    f->info.data_pages = f->info.zero_pages = 0;
    mkdir(f->dir, 0700);
    qcow2(disk);
    ck_ram_print_tail(&(struct ck_ram_tail){.guest_pages = 512 * 256}, ram);
    put(f, ID, "ram", ram, sizeof ram);
    put(f, ID, "state", "state", 5);
    put(f, ID, "disk.qcow2", disk, sizeof disk);
    put(f, BELOW, "disk.qcow2", disk, sizeof disk);
    sum_of(f, "ram", &f->info.ram);
    sum_of(f, "state", &f->info.state);
    sum_of(f, "disk.qcow2", &f->info.disk);
    put_json(f);
}

static void open_fails(const struct folder *f, const char *reason, const char *named)
{
    struct ck_layer l;
    struct ck_err e = CK_ERR_INIT;
    assert_true(ck_layer_open(f->dir, ID, &l, &e) < 0);
    assert_string_equal(e.reason, reason);
    if (!strstr(e.text, named))
        fail_msg("\"%s\" does not name %s", e.text, named);
    assert_int_equal(l.ram, -1);
    ck_layer_close(&l);
}

static void a_layer_is_opened_with_the_disks_below_it(void **state)
{
    (void)state;
    struct folder f;
    struct ck_layer l;
    struct ck_err e = CK_ERR_INIT;
    folder_begin(&f);
    assert_int_equal(ck_layer_open(f.dir, ID, &l, &e), 0);
    assert_int_equal(l.ndisk, 2);
    assert_true(l.disk_size == 1ull << 32);
    assert_int_equal(ck_layer_verify(&l, &e), 0);
    ck_layer_close(&l);
    // A folder that is complete in itself needs no other.
    uint8_t disk[CK_QCOW2_HEADER];
    char path[256];
    qcow2(disk);
    put(&f, ID, BELOW ".qcow2", disk, sizeof disk);
    snprintf(path, sizeof path, "%s/%s", f.dir, BELOW);
    assert_int_equal(ck_remove_tree(path, NULL), 0);
    assert_int_equal(ck_layer_open(f.dir, ID, &l, &e), 0);
    ck_layer_close(&l);
    ck_remove_tree(f.dir, NULL);
}

static void a_layer_that_lacks_something_is_refused(void **state)
{
    (void)state;
    struct folder f;
    struct ck_layer l;
    char path[256], other[256];
    folder_begin(&f);
    assert_true(ck_layer_open(f.dir, "../x", &l, NULL) < 0);
    assert_true(ck_layer_open(f.dir, BELOW, &l, NULL) < 0);
    put(&f, ID, "state", "stat", 4);
    open_fails(&f, "bad_layer", "device state");
    put(&f, ID, "state", "state", 5);
    put(&f, ID, "ram", "short", 5);
    open_fails(&f, "bad_layer", "memory");
    folder_begin(&f);
    snprintf(path, sizeof path, "%s/%s/disk.qcow2", f.dir, BELOW);
    unlink(path);
    open_fails(&f, "no_such_layer", BELOW);
    folder_begin(&f);
    snprintf(path, sizeof path, "%s/%s/state", f.dir, ID);
    snprintf(other, sizeof other, "%s/elsewhere", f.dir);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0); // what a guest that broke out could put there
    open_fails(&f, "bad_layer", "state");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); // must not hang
    open_fails(&f, "bad_layer", "device state");
    folder_begin(&f);
    memcpy(f.info.id, BELOW, sizeof f.info.id);
    put_json(&f);
    open_fails(&f, "bad_layer", BELOW);
    ck_remove_tree(f.dir, NULL);
}

static void damage_of_any_file_is_found_by_verify(void **state)
{
    (void)state;
    struct folder f;
    struct ck_layer l;
    struct ck_err e = CK_ERR_INIT;
    uint8_t disk[CK_QCOW2_HEADER];
    folder_begin(&f);
    put(&f, ID, "state", "stale", 5);
    assert_int_equal(ck_layer_open(f.dir, ID, &l, &e), 0);
    assert_true(ck_layer_verify(&l, &e) < 0);
    assert_non_null(strstr(e.text, "device state is damaged"));
    ck_layer_close(&l);
    folder_begin(&f);
    qcow2(disk);
    disk[50] = 1;
    put(&f, ID, "disk.qcow2", disk, sizeof disk);
    assert_int_equal(ck_layer_open(f.dir, ID, &l, &e), 0);
    assert_true(ck_layer_verify(&l, &e) < 0);
    assert_non_null(strstr(e.text, "disk is damaged"));
    ck_layer_close(&l);
    ck_remove_tree(f.dir, NULL);
}

static void descriptors_are_taken_over_whatever_comes_of_it(void **state)
{
    (void)state;
    struct folder f;
    struct ck_layer l;
    struct ck_err e = CK_ERR_INIT;
    char path[256];
    int fd[5];
    static const char *const names[] = {"layer.json", "ram", "state", "disk.qcow2"};
    folder_begin(&f);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 5; i++) {
            snprintf(path, sizeof path, "%s/%s/%s", f.dir, i < 4 ? ID : BELOW, i < 4 ? names[i] : "disk.qcow2");
            assert_true((fd[i] = open(path, O_RDONLY)) >= 0);
        }
        if (round == 0) {
            assert_int_equal(ck_layer_take(fd[0], fd[1], fd[2], fd + 3, 2, &l, &e), 0);
        } else {
            close(fd[4]);
            assert_true(ck_layer_take(fd[0], fd[1], fd[2], fd + 3, 1, &l, &e) < 0); // one disk is missing
            assert_string_equal(e.reason, "bad_layer");
        }
        ck_layer_close(&l);
        for (int i = 0; i < 5; i++)
            assert_int_equal(fcntl(fd[i], F_GETFD), -1);
    }
    ck_remove_tree(f.dir, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_json_says_all_of_it_and_comes_back),
        cmocka_unit_test(a_layer_json_that_is_wrong_anywhere_is_refused),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(an_index_comes_back_and_what_lies_outside_is_refused),
        cmocka_unit_test(every_byte_of_the_tail_matters),
        cmocka_unit_test(the_mapping_of_a_file_is_found_in_maps),
        cmocka_unit_test(runs_of_own_pages_join_across_pieces),
        cmocka_unit_test(a_disk_that_would_open_something_else_is_refused),
        cmocka_unit_test(a_checksum_is_of_all_bytes_and_their_order),
        cmocka_unit_test(memory_goes_from_one_process_to_another_and_only_what_differs_is_stored),
        cmocka_unit_test(memory_that_was_damaged_on_disk_is_never_accepted),
        cmocka_unit_test(a_process_that_died_is_an_error_and_nobody_else_s_memory),
        cmocka_unit_test(this_host_lets_us_and_the_probe_says_so),
        cmocka_unit_test(a_layer_is_opened_with_the_disks_below_it),
        cmocka_unit_test(a_layer_that_lacks_something_is_refused),
        cmocka_unit_test(damage_of_any_file_is_found_by_verify),
        cmocka_unit_test(descriptors_are_taken_over_whatever_comes_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
