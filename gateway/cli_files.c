// Files that `cellkeep run` sends before and fetches after a cell. Paths come from the guest: nothing
// is ever written outside the folder that the user named, and nothing half-written keeps its name.
#include "gateway/cli_run.h"

#include "common/ck_clean.h"
#include "common/ck_fs.h"
#include "common/ck_json.h"
#include "gateway/v1_path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOME "/home/user/"

static int file_url(const char *session, const char *guest_path, struct ck_buf *b, struct ck_err *err)
{
    if (ck_buf_printf(b, "/v1/sessions/%s/files/", session) || v1_path_to_url(guest_path, b) || ck_buf_add(b, "", 1))
        return ck_fail(err, 500, "no_memory", "out of memory");
    return 0;
}

int cli_upload(struct cli_client *c, const char *session, const char *local, struct ck_err *err)
{
    const char *name = strrchr(local, '/') ? strrchr(local, '/') + 1 : local;
    char guest[V1_PATH_MAX];
    CK_CLEAN_BUF struct ck_buf url = CK_BUF_INIT;
    FILE *f = fopen(local, "rb");
    if (!f)
        return ck_fail_errno(err, errno, 400, "no_such_file", "cannot read %.200s", local);
    int rc = v1_path_from_body(name, guest, err) || file_url(session, guest, &url, err) ||
                     cli_put_file(c, (const char *)url.p, f, err)
                 ? ck_wrap(err, "upload of %.200s", local)
                 : 0;
    fclose(f);
    return rc;
}

int cli_artifact_path(const char *dir, const char *guest_path, char *out, size_t room, struct ck_err *err)
{
    char clean[V1_PATH_MAX];
    if (guest_path[0] != '/' || v1_path_from_body(guest_path, clean, err) || strcmp(clean, guest_path))
        return ck_fail(err, 502, "bad_path", "the gateway named a file with a path that is not clean");
    const char *relative = strncmp(clean, HOME, strlen(HOME)) ? clean + 1 : clean + strlen(HOME);
    return ck_path(out, room, err, "%s/%s", dir, relative);
}

static void say_saved(const char *path)
{
    fputs("cellkeep: saved ", stderr);
    for (; *path; path++) // a name made by a guest must not drive the terminal
        fputc((unsigned char)*path < 0x20 || *path == 0x7f ? '?' : *path, stderr);
    fputc('\n', stderr);
}

static int save_one(struct cli_client *c, const char *session, const char *guest, const char *dir, struct ck_err *err)
{
    char path[4096], part[4096];
    CK_CLEAN_BUF struct ck_buf url = CK_BUF_INIT;
    if (cli_artifact_path(dir, guest, path, sizeof path, err) ||
        ck_path(part, sizeof part, err, "%s.part-%ld", path, (long)getpid()) || file_url(session, guest, &url, err))
        return -1;
    char *slash = strrchr(part, '/');
    *slash = '\0';
    if (ck_mkdirs(part, 0777, err))
        return -1;
    *slash = '/';
    FILE *f = fopen(part, "wbx");
    if (!f)
        return ck_fail_errno(err, errno, 500, "write_failed", "cannot write %.200s", part);
    int rc = cli_get_file(c, (const char *)url.p, f, err);
    if (fclose(f) && !rc)
        rc = ck_fail_errno(err, errno, 500, "write_failed", "cannot write %.200s", path);
    if (!rc && rename(part, path))
        rc = ck_fail_errno(err, errno, 500, "write_failed", "cannot write %.200s", path);
    if (rc)
        unlink(part);
    else
        say_saved(path);
    return rc;
}

int cli_save_artifacts(struct cli_client *c, const char *session, const json_t *finished, const char *dir,
                       struct ck_err *err)
{
    size_t i;
    json_t *a;
    json_array_foreach (json_object_get(finished, "artifacts"), i, a) {
        const char *path = ck_json_str(a, "path", "", NULL);
        // A file that the code removed again, or that a later cell holds, is no reason to lose the others.
        if (save_one(c, session, path, dir, err) && err->status != 404 && err->status != 409)
            return -1;
        if (!err->status && json_is_true(json_object_get(a, "partial")))
            fputs("cellkeep: it was still being written, and is not complete\n", stderr);
        memset(err, 0, sizeof *err);
    }
    return 0;
}
