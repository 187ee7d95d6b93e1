// Facts about this host: QEMU, the time-stamp counter, disk space. Must never take longer than its
// deadlines, whatever the host does.
#include "vmm/host.h"

#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "common/ck_fs.h"
#include "vmm/spawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

// One to six digits; what follows them, or NULL.
static const char *number(const char *s, int *out)
{
    size_t n = strspn(s, "0123456789");
    if (!n || n > 6)
        return NULL;
    *out = (int)strtol(s, NULL, 10);
    return s + n;
}

int ck_host_parse_qemu_version(const char *text, struct ck_qemu *out)
{
    const char *at = strstr(text, "version ");
    if (!at)
        return -1;
    at += strlen("version ");
    const char *rest = number(at, &out->major);
    if (!rest || *rest != '.' || !number(rest + 1, &out->minor))
        return -1;
    size_t n = strcspn(at, "\n");
    if (n >= sizeof out->version)
        n = sizeof out->version - 1;
    memcpy(out->version, at, n);
    out->version[n] = 0;
    for (char *s = out->version; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f)
            *s = '?';
    return 0;
}

int ck_host_qemu(const char *wanted, struct ck_qemu *out, struct ck_err *err)
{
    *out = (struct ck_qemu){.path = ""};
    const char *name = wanted ? wanted : "qemu-system-x86_64";
    int rc = ck_find_program(name, out->path, err);
    if (rc > 0)
        return ck_fail(err, 500, "no_qemu", "%s is not installed: run `apt-get install qemu-system-x86`", name);
    if (rc)
        return -1;
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    char *argv[] = {out->path, (char *)"--version", NULL};
    if (ck_run(argv, 20000, 8192, &text, err) || ck_buf_add(&text, "", 1))
        return ck_wrap(err, "cannot ask QEMU for its version");
    if (ck_host_parse_qemu_version((char *)text.p, out))
        return ck_fail(err, 500, "no_qemu", "%s does not look like QEMU: run `apt-get install qemu-system-x86`", out->path);
    if (out->major < 7 || (out->major == 7 && out->minor < 2))
        return ck_fail(err, 500, "old_qemu", "QEMU %s is too old, 7.2 or newer is needed: run `apt-get install qemu-system-x86`",
                       out->version);
    return 0;
}

static int64_t raw_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#if defined(__x86_64__)
// A pair of (counter, clock) that were read close together: the best of a few tries, since the
// scheduler may come between the two.
static void read_pair(uint64_t *tsc, int64_t *ns)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 8; i++) {
        int64_t a = raw_ns();
        uint64_t c = __rdtsc();
        int64_t b = raw_ns();
        if (b - a < best) {
            best = b - a;
            *tsc = c;
            *ns = a + (b - a) / 2;
        }
    }
}

uint32_t ck_host_tsc_khz(unsigned measure_ms)
{
    uint64_t c0 = 0, c1 = 0;
    int64_t t0 = 0, t1 = 0;
    read_pair(&c0, &t0);
    nanosleep(&(struct timespec){measure_ms / 1000, (long)(measure_ms % 1000) * 1000000}, NULL);
    read_pair(&c1, &t1);
    return t1 > t0 ? (uint32_t)((c1 - c0) * 1000000 / (uint64_t)(t1 - t0)) : 0;
}
#else
// QEMU's stand-in for a time-stamp counter on other hosts is the clock in nanoseconds.
uint32_t ck_host_tsc_khz(unsigned measure_ms)
{
    (void)measure_ms;
    (void)raw_ns;
    return 1000000;
}
#endif

uint64_t ck_host_disk_free(const char *path)
{
    struct statvfs v;
    return statvfs(path, &v) ? UINT64_MAX : (uint64_t)v.f_bavail * v.f_frsize;
}

// The first line of /proc/cpuinfo that begins with key, or an empty slice.
static struct ck_slice cpu_line(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? ck_slice(at, strcspn(at, "\n")) : ck_slice("", 0);
}

int ck_host_cpu_id(char out[17], struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    uint8_t digest[CK_SHA256_LEN];
    if (ck_read_file("/proc/cpuinfo", 8 << 20, &b, err))
        return -1;
    const struct ck_slice parts[] = {cpu_line((char *)b.p, "model name"), cpu_line((char *)b.p, "flags")};
    if (ck_hmac_sha256(ck_slice_str("cpu"), parts, 2, digest))
        return ck_fail(err, 500, "no_memory", "cannot hash the CPU's features");
    ck_hex(digest, 8, out);
    return 0;
}

int ck_host_boot_id(char out[40], struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    if (ck_read_file("/proc/sys/kernel/random/boot_id", 64, &b, err))
        return -1;
    snprintf(out, 40, "%.36s", (char *)b.p);
    out[strcspn(out, "\n")] = 0;
    return 0;
}
