// Boot. Runs once, single-threaded, before anything of a user exists. Everything it needs is in the
// initramfs; a failure is reported by the caller on the console, and the host gives up on the boot.
// Must never format or repair a disk: the host made it.
#include "guest/agent/boot.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define MODULES_MAX (16 * 1024)
#define HOOK_FILE_MAX (1024 * 1024)
#define DISK_WAIT_MS 10000
#define SHM_OPTIONS "mode=1777"

static int mount_at(const char *src, const char *dir, const char *type, unsigned long flags, const char *data,
                    struct ck_err *err)
{
    mkdir(dir, 0755);
    if (mount(src, dir, type, flags, data) < 0 && errno != EBUSY)
        return ck_fail_errno(err, errno, 500, "mount", "mount %s on %s", type ? type : src, dir);
    return 0;
}

int ag_boot_early(struct ag_bootargs *out, struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf cmdline = CK_BUF_INIT;
    if (mount_at("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, err) < 0 ||
        mount_at("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, err) < 0 ||
        mount_at("dev", "/dev", "devtmpfs", MS_NOSUID, "mode=0755", err) < 0 ||
        ck_read_file("/proc/cmdline", 16 * 1024, &cmdline, err) < 0)
        return -1;
    return ag_bootargs_parse((const char *)cmdline.p, cmdline.n, out, err);
}

static int load_module(const char *name, struct ck_err *err)
{
    char path[256];
    if (ck_path(path, sizeof path, err, "/modules/%s.ko", name) < 0)
        return -1;
    CK_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ck_fail_errno(err, errno, 500, "module", "%s", path);
    if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
        return ck_fail_errno(err, errno, 500, "module", "loading %s", name);
    return 0;
}

int ag_boot_modules(struct ck_err *err)
{
    CK_CLEAN_BUF struct ck_buf list = CK_BUF_INIT;
    if (ck_read_file("/modules/load", MODULES_MAX, &list, err) < 0)
        return -1;
    char *save = NULL;
    for (char *name = list.n ? strtok_r((char *)list.p, " \n", &save) : NULL; name; name = strtok_r(NULL, " \n", &save))
        if (load_module(name, err) < 0)
            return -1;
    return 0;
}

// Looks through /sys/block for a virtio disk with this serial; its device node goes to out.
static int find_disk(const char *serial, char *out, size_t room)
{
    DIR *dir = opendir("/sys/block");
    int found = -1;
    for (struct dirent *e = dir ? readdir(dir) : NULL; e && found < 0; e = readdir(dir)) {
        char path[300];
        CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
        if (e->d_name[0] == '.' || snprintf(path, sizeof path, "/sys/block/%s/serial", e->d_name) >= (int)sizeof path ||
            ck_read_file(path, 256, &text, NULL) < 0)
            continue;
        if (text.n >= strlen(serial) && !memcmp(text.p, serial, strlen(serial)) &&
            (text.n == strlen(serial) || text.p[strlen(serial)] == '\n') &&
            snprintf(out, room, "/dev/%s", e->d_name) < (int)room)
            found = 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

static int wait_disk(const char *serial, char *out, size_t room, struct ck_err *err)
{
    for (int waited = 0; waited <= DISK_WAIT_MS; waited += 10) {
        if (find_disk(serial, out, room) == 0)
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    }
    return ck_fail(err, 500, "no_disk", "no virtio disk with the serial \"%s\"", serial);
}

static int mount_root(struct ck_err *err)
{
    char root[64], disk[64];
    if (wait_disk("root", root, sizeof root, err) < 0 || wait_disk("disk", disk, sizeof disk, err) < 0)
        return -1;
    mkdir("/new", 0755);
    // noinit_itable: no background zeroing in a guest that is meant to fall idle
    if (mount_at(root, "/lower", "erofs", MS_RDONLY, NULL, err) < 0 ||
        mount_at(disk, "/upper", "ext4", MS_NOATIME | MS_NODEV | MS_NOSUID, "noinit_itable", err) < 0)
        return -1;
    mkdir("/upper/upper", 0755);
    mkdir("/upper/work", 0755);
    return mount_at("overlay", "/new", "overlay", MS_NOATIME | MS_NODEV | MS_NOSUID,
                    "lowerdir=/lower,upperdir=/upper/upper,workdir=/upper/work", err);
}

static int copy_hook_file(const char *name, struct ck_err *err)
{
    char from[300], to[300];
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (ck_path(from, sizeof from, err, "/hook/%s", name) < 0 ||
        ck_path(to, sizeof to, err, "/new/run/cellkeep/%s", name) < 0 ||
        ck_read_file(from, HOOK_FILE_MAX, &text, err) < 0)
        return -1;
    return ck_write_file_atomic(to, text.p, text.n, 0444, err);
}

// The Python side of the agent travels in the initramfs, so that changing it leaves the root image alone.
static int copy_hook(struct ck_err *err)
{
    if (mkdir("/new/run/cellkeep", 0755) < 0 && errno != EEXIST)
        return ck_fail_errno(err, errno, 500, "mkdir", "/run/cellkeep");
    DIR *dir = opendir("/hook");
    if (!dir)
        return ck_fail_errno(err, errno, 500, "hook", "/hook in the initramfs");
    int rc = 0;
    for (struct dirent *e = readdir(dir); e && rc == 0; e = readdir(dir))
        if (e->d_name[0] != '.')
            rc = copy_hook_file(e->d_name, err);
    closedir(dir);
    return rc;
}

static int mount_runtime(struct ck_err *err)
{
    const unsigned long safe = MS_NOSUID | MS_NODEV;
    if (mount_at("tmpfs", "/new/run", "tmpfs", safe, "mode=0755,size=16m", err) < 0 ||
        mount_at("/proc", "/new/proc", NULL, MS_MOVE, NULL, err) < 0 ||
        mount_at("/sys", "/new/sys", NULL, MS_MOVE, NULL, err) < 0 ||
        mount_at("/dev", "/new/dev", NULL, MS_MOVE, NULL, err) < 0 ||
        mount_at("devpts", "/new/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=0620,ptmxmode=0666", err) < 0 ||
        mount_at("shm", "/new/dev/shm", "tmpfs", safe, SHM_OPTIONS, err) < 0)
        return -1;
    chmod("/new/dev/ptmx", 0666);
    if (symlink("/proc/self/fd", "/new/dev/fd") || symlink("/proc/self/fd/0", "/new/dev/stdin") ||
        symlink("/proc/self/fd/1", "/new/dev/stdout") || symlink("/proc/self/fd/2", "/new/dev/stderr"))
        return ck_fail_errno(err, errno, 500, "boot_failed", "cannot make the links of /dev");
    return mount_at("cgroup2", "/new/sys/fs/cgroup", "cgroup2", safe | MS_NOEXEC, NULL, err);
}

int ag_boot_root(struct ck_err *err)
{
    if (mount_root(err) < 0 || mount_runtime(err) < 0 || copy_hook(err) < 0)
        return -1;
    // free the memory of the initramfs; the agent's own text stays mapped
    struct ck_err ignored = CK_ERR_INIT;
    ck_remove_tree("/modules", &ignored);
    ck_remove_tree("/hook", &ignored);
    unlink("/init");
    if (chdir("/new") < 0 || mount("/new", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
        return ck_fail_errno(err, errno, 500, "switch_root", "making the new root \"/\"");
    return 0;
}

int ag_boot_shm(struct ck_err *err)
{
    if (umount2("/dev/shm", MNT_DETACH) < 0)
        return ck_fail_errno(err, errno, 500, "mount", "unmounting /dev/shm");
    return mount_at("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, SHM_OPTIONS, err);
}

static void set(const char *path, const char *value)
{
    CK_CLEAN_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, value, strlen(value)) < 0)
        return; // a setting this kernel does not have costs wake-ups, nothing else
}

void ag_boot_tune(void)
{
    set("/proc/sys/vm/compaction_proactiveness", "0");   // kcompactd looks every half second otherwise
    set("/proc/sys/vm/stat_interval", "120");            // per-CPU counters, every second by default
    set("/proc/sys/vm/dirty_writeback_centisecs", "1500");
    set("/proc/sys/kernel/watchdog", "0");               // wakes up every four seconds; the bridge sees who hangs
    set("/proc/sys/net/ipv4/neigh/default/gc_interval", "3600"); // there are no neighbours but QEMU
    set("/sys/kernel/mm/transparent_hugepage/enabled", "never"); // copy-on-write of a clone in 4 KiB, not 2 MiB
    set("/sys/kernel/mm/ksm/run", "0");
    set("/proc/sys/kernel/printk", "1 4 1 7");           // reports of killed processes would crawl out serially
    set("/proc/sys/kernel/dmesg_restrict", "1");
    set("/proc/sys/kernel/kptr_restrict", "2");
    set("/proc/sys/kernel/unprivileged_bpf_disabled", "1");
    set("/proc/sys/kernel/unprivileged_userns_clone", "0"); // the largest door into a kernel from an ordinary user
    set("/proc/sys/kernel/panic", "-1");                 // a panic ends the machine; its bridge reports vm_died
    set("/proc/sys/net/ipv4/ping_group_range", "0 65535");
    set("/proc/sys/kernel/shm_rmid_forced", "1");        // System V shared memory goes with its last process
}

void ag_boot_drop_cache(void)
{
    sync();
    set("/proc/sys/vm/drop_caches", "1");
}

_Noreturn void ag_boot_poweroff(void)
{
    sync();
    reboot(RB_POWER_OFF);
    reboot(RB_AUTOBOOT);
    for (;;)
        pause();
}
