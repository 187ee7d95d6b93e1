// The steps that tell one clone from another: time, randomness, names. Fails closed: an error in any
// step is the answer, and the host then does not let the session exist.
#include "guest/agent/personalise.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define ENTROPY_MIN 32
#define ENTROPY_MAX 512

int ag_set_time(int64_t time_us, struct ck_err *err)
{
    struct timespec t = {.tv_sec = time_us / 1000000, .tv_nsec = time_us % 1000000 * 1000};
    if (time_us <= 0 || clock_settime(CLOCK_REALTIME, &t) < 0)
        return ck_fail_errno(err, time_us > 0 ? errno : EINVAL, 400, "bad_time", "setting the clock");
    return 0;
}

// Adds the host's entropy, credited, and makes the CRNG take it in now: until it reseeds, two clones
// would draw the same numbers.
static int reseed(struct ck_slice entropy, struct ck_err *err)
{
    union {
        struct rand_pool_info info;
        uint8_t bytes[sizeof(struct rand_pool_info) + ENTROPY_MAX];
    } pool;
    if (entropy.n < ENTROPY_MIN || entropy.n > ENTROPY_MAX)
        return ck_fail(err, 400, "bad_entropy", "the payload must be %d to %d bytes of entropy", ENTROPY_MIN,
                       ENTROPY_MAX);
    CK_CLEAN_FD int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
    pool.info.entropy_count = (int)entropy.n * 8;
    pool.info.buf_size = (int)entropy.n;
    memcpy(pool.info.buf, entropy.p, entropy.n);
    int rc = fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0
                 ? ck_fail_errno(err, errno, 500, "no_entropy", "reseeding the random number generator")
                 : 0;
    explicit_bzero(&pool, sizeof pool);
    return rc;
}

static int name_machine(const struct ag_personality *p, struct ck_err *err)
{
    char back[65] = "", name[80], hosts[200], id[40];
    int n = snprintf(name, sizeof name, "%s\n", p->hostname);
    int h = snprintf(hosts, sizeof hosts, "127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 %s\n",
                     p->hostname);
    int i = snprintf(id, sizeof id, "%s\n", p->machine_id);
    if (sethostname(p->hostname, strlen(p->hostname)) < 0 || gethostname(back, sizeof back) < 0 ||
        strcmp(back, p->hostname) != 0)
        return ck_fail_errno(err, errno, 500, "no_hostname", "setting the host name");
    if (ck_write_file_atomic("/etc/hostname", name, (size_t)n, 0644, err) < 0 ||
        ck_write_file_atomic("/etc/hosts", hosts, (size_t)h, 0644, err) < 0)
        return -1;
    return ck_write_file_atomic("/etc/machine-id", id, (size_t)i, 0444, err);
}

int ag_personalise(const struct ag_personality *p, struct ck_slice entropy, struct ck_err *err)
{
    if (ag_set_time(p->time_us, err) < 0 || reseed(entropy, err) < 0 || name_machine(p, err) < 0)
        return ck_wrap(err, "personalise");
    return 0;
}
