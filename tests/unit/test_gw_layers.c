// Layers as files: sealing, links for forks, what is tidied and what stays, paused.json. On a real
// folder, with the tricks that a bridge which was broken out of could play.
#include "gateway/layer_files.h"

#include "common/ck_buf.h"
#include "common/ck_clean.h"
#include "common/ck_fs.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define A "aaaaaaaa-0000-4000-8000-000000000001"
#define B "bbbbbbbb-0000-4000-8000-000000000002"
#define C "cccccccc-0000-4000-8000-000000000003"
#define D "dddddddd-0000-4000-8000-000000000004"
#define SESSION "eeeeeeee-0000-4000-8000-000000000005"

static char root[64], dir[128], other[128];
static struct ck_err err;

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/ck-layers-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(dir, sizeof dir, "%s/s", root);
    snprintf(other, sizeof other, "%s/o", root);
    err = (struct ck_err)CK_ERR_INIT;
    return mkdir(dir, 0700) || mkdir(other, 0700);
}

static int tear_down(void **state)
{
    (void)state;
    return ck_remove_tree(root, NULL);
}

static void path_of(char out[PATH_MAX], const char *base, const char *layer, const char *name)
{
    snprintf(out, PATH_MAX, "%s/layers%s%s%s%s", base, layer ? "/" : "", layer ? layer : "", name ? "/" : "", name ? name : "");
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void write_text(const char *layer, const char *name, const char *text)
{
    char path[PATH_MAX];
    path_of(path, dir, layer, name);
    write_file(path, text);
}

static bool there(const char *base, const char *layer, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    path_of(path, base, layer, name);
    return !lstat(path, &st);
}

// below: the text of the list in layer.json
static void make_layer(const char *layer, const char *below)
{
    char path[PATH_MAX], json[512];
    path_of(path, dir, layer, NULL);
    assert_int_equal(ck_mkdirs(path, 0755, NULL), 0);
    snprintf(json, sizeof json, "{\"magic\":\"cellkeep-layer\",\"version\":1,\"below\":[%s]}", below);
    write_text(layer, "layer.json", json);
    write_text(layer, "ram", "ram");
    write_text(layer, "state", "state");
    write_text(layer, "disk.qcow2", layer);
    write_text(layer, "session.json", "{}");
}

static void test_below_is_read_strictly(void **state)
{
    (void)state;
    char below[LAYER_BELOW_MAX][CK_UUID_MAX];
    static const char *const bad[] = {
        "", "[]", "{\"below\":{}}", "{\"below\":[1]}", "{\"below\":[\"../../etc\"]}", "{\"below\":\"" A "\"}",
        "{\"below\":[\"" A "\",\"" A "\",\"" A "\",\"" A "\",\"" A "\",\"" A "\",\"" A "\",\"" A "\",\"" A "\"]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(layer_parse_below(bad[i], strlen(bad[i]), below, &err), -1);
    static const char good[] = "{\"below\":[\"" B "\",\"" A "\"]}";
    assert_int_equal(layer_parse_below(good, strlen(good), below, &err), 2);
    assert_string_equal(below[0], B);
    assert_string_equal(below[1], A);
    assert_int_equal(layer_parse_below("{}", 2, below, &err), 0);
}

static void test_the_origin_names_folders_of_the_cache(void **state)
{
    (void)state;
    struct layer_origin o;
    static const char good[] = "{\"template\":\"0123456789abcdef\",\"image\":\"fedcba9876543210\",\"memory_mb\":512}";
    static const char *const bad[] = {
        "", "{}", "{\"template\":\"0123456789abcdef\",\"image\":\"fedcba9876543210\"}",
        "{\"template\":\"../../../../etc\",\"image\":\"fedcba9876543210\",\"memory_mb\":512}",
        "{\"template\":\"0123456789abcdef\",\"image\":\"\",\"memory_mb\":512}",
        "{\"template\":\"0123456789abcdef\",\"image\":\"fedcba9876543210\",\"memory_mb\":-1}",
    };
    assert_int_equal(layer_parse_origin(good, strlen(good), &o, &err), 0);
    assert_string_equal(o.template, "0123456789abcdef");
    assert_string_equal(o.image, "fedcba9876543210");
    assert_int_equal(o.memory_mb, 512);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(layer_parse_origin(bad[i], strlen(bad[i]), &o, &err), -1);
}

static void test_a_sealed_layer_is_read_only(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct stat st;
    int64_t bytes = 0;
    make_layer(A, "");
    assert_int_equal(layer_seal(dir, A, geteuid(), &bytes, &err), 0);
    assert_true(bytes > 0);
    path_of(path, dir, A, "ram");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0444);
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(layer_seal(dir, A, geteuid(), &bytes, &err), 0); // again is fine
    assert_int_equal(layer_seal(dir, B, geteuid(), &bytes, &err), -1);
}

// Who could still write it would write what other sessions build on, whatever owner and mode say.
static void test_what_somebody_can_still_write_is_not_sealed(void **state)
{
    (void)state;
    char path[PATH_MAX];
    make_layer(A, "");
    path_of(path, dir, A, "ram");
    int writer = open(path, O_RDWR | O_CLOEXEC), reader = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(writer >= 0 && reader >= 0);
    assert_int_equal(layer_seal(dir, A, geteuid(), NULL, &err), -1);
    close(writer);
    assert_int_equal(layer_seal(dir, A, geteuid(), NULL, &err), 0); // readers are welcome
    close(reader);
}

static void test_sealing_follows_nothing(void **state)
{
    (void)state;
    char path[PATH_MAX], target[PATH_MAX];
    struct stat st;
    snprintf(target, sizeof target, "%s/secret", root);
    int fd = open(target, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    make_layer(A, "");
    path_of(path, dir, A, "link");
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(layer_seal(dir, A, geteuid(), NULL, &err), -1);
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(layer_seal(dir, A, geteuid(), NULL, &err), -1); // and does not wait
    unlink(path);
    char layer[PATH_MAX], moved[PATH_MAX];
    path_of(layer, dir, A, NULL);
    snprintf(moved, sizeof moved, "%s/moved", root);
    assert_int_equal(rename(layer, moved), 0);
    assert_int_equal(symlink(moved, layer), 0);
    assert_int_equal(layer_seal(dir, A, geteuid(), NULL, &err), -1);
    assert_int_equal(layer_link(dir, other, A, &err), -1);
}

// A gateway that is killed between the bridge's answer and the seal leaves a layer that is its bridge's
// alone; the next layer lies on it, and a fork's bridge is another user.
static void test_what_is_shared_is_sealed_to_the_bottom(void **state)
{
    (void)state;
    static const char *const names[] = {"disk.qcow2", "ram"};
    char path[PATH_MAX];
    struct stat st;
    uid_t owner = geteuid() ? geteuid() : 54321;
    make_layer(A, "");
    make_layer(B, "\"" A "\"");
    for (size_t i = 0; i < 2; i++) {
        path_of(path, dir, A, names[i]);
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(chown(path, owner, owner), 0);
    }
    assert_int_equal(layer_seal_all(dir, B, owner, &err), 0);
    for (size_t i = 0; i < 2; i++) {
        path_of(path, dir, A, names[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0444);
        assert_int_equal(st.st_uid, geteuid());
    }
    path_of(path, dir, A, NULL);
    assert_int_equal(ck_remove_tree(path, NULL), 0);
    assert_int_equal(layer_seal_all(dir, B, owner, &err), -1);
}

static void test_a_link_brings_the_disks_below_along(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct stat st;
    make_layer(A, "");
    make_layer(B, "\"" A "\"");
    assert_int_equal(layer_link(dir, other, B, &err), 0);
    assert_true(there(other, B, "ram") && there(other, B, "layer.json") && there(other, A, "disk.qcow2"));
    assert_false(there(other, A, "ram"));
    path_of(path, dir, B, "ram");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_nlink, 2);
    assert_int_equal(ck_remove_tree(dir, NULL), 0); // the source goes, the fork stays
    assert_true(there(other, B, "ram") && there(other, A, "disk.qcow2"));
}

static void test_a_link_needs_all_of_it(void **state)
{
    (void)state;
    make_layer(B, "\"" A "\"");
    assert_int_equal(layer_link(dir, other, B, &err), -1);
    assert_int_not_equal(err.status, 0);
    assert_false(there(other, B, NULL));
}

static void put(const char *base, const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", base, name);
    write_file(path, text);
}

static bool has(const char *base, const char *name, const char *text)
{
    char path[PATH_MAX];
    CK_CLEAN_BUF struct ck_buf b = CK_BUF_INIT;
    snprintf(path, sizeof path, "%s/%s", base, name);
    return !ck_read_file(path, 100, &b, NULL) && b.n == strlen(text) && (!b.n || !memcmp(b.p, text, b.n));
}

static void test_a_session_moves_into_the_folder_of_a_spare(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct stat before, after;
    make_layer(A, "");
    make_layer(B, "\"" A "\"");
    make_layer(C ".tmp", "");
    put(dir, "paused.json", "p");
    put(dir, "history", "h");
    put(dir, "bridge.log", "old");
    put(dir, "disk.qcow2", "old");
    put(other, "bridge.log", "new");
    put(other, "disk.qcow2", "new");
    uid_t owner = geteuid() ? geteuid() : 54321; // of one that was never sealed
    path_of(path, dir, B, NULL);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(chown(path, owner, getegid()), 0);
    assert_int_equal(stat(other, &before), 0);
    assert_int_equal(folder_take_over(dir, other, &err), 0);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_uid, owner);
    assert_int_equal(after.st_mode & 07777, 0700);
    assert_int_equal(stat(dir, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); // a jail sees the folder, not its name
    for (int i = 0; i < 2; i++) {
        assert_true(there(dir, A, "ram") && there(dir, B, "layer.json") && there(dir, B, "disk.qcow2"));
        assert_false(there(dir, C ".tmp", NULL));
        assert_true(has(dir, "paused.json", "p") && has(dir, "history", "h") && has(dir, "bridge.log.before", "old"));
        assert_true(has(dir, "bridge.log", "new") && has(dir, "disk.qcow2", "new"));
        assert_int_equal(ck_remove_tree(other, NULL), 0); // what was the session's folder is not needed
    }
}

static void test_a_session_that_cannot_move_stays_whole(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct stat before, after;
    make_layer(A, "");
    path_of(path, dir, A, "extra"); // a trick of a bridge that was broken out of
    assert_int_equal(symlink("/etc/passwd", path), 0);
    put(dir, "paused.json", "p");
    assert_int_equal(stat(dir, &before), 0);
    assert_int_equal(folder_take_over(dir, other, &err), -1);
    assert_int_not_equal(err.status, 0);
    assert_int_equal(stat(dir, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_true(there(dir, A, "ram") && has(dir, "paused.json", "p"));
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/history", dir);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    snprintf(path, sizeof path, "%s/o2", root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(folder_take_over(dir, path, &err), -1);
    snprintf(path, sizeof path, "%s/none", root);
    assert_int_equal(folder_take_over(dir, path, &err), -1);
    assert_true(there(dir, A, "ram") && has(dir, "paused.json", "p"));
}

static void tidy(const char *wanted, const char *base, bool known, bool stopped)
{
    char list[1][CK_UUID_MAX] = {""};
    struct layer_wants w = {.wanted = (const char(*)[CK_UUID_MAX])list, .nwanted = wanted ? 1 : 0, .base_known = known,
                            .stopped = stopped};
    if (wanted)
        memcpy(list[0], wanted, CK_UUID_MAX);
    snprintf(w.base, sizeof w.base, "%s", base);
    layer_tidy(dir, &w);
}

static void test_what_something_lies_on_stays_as_a_disk(void **state)
{
    (void)state;
    make_layer(A, "");
    make_layer(B, "\"" A "\"");
    make_layer(C, "\"" B "\",\"" A "\"");
    make_layer(D, "");
    tidy(C, "", true, false);
    assert_true(there(dir, C, "ram"));
    assert_true(there(dir, B, "disk.qcow2") && there(dir, B, "layer.json") && there(dir, A, "disk.qcow2"));
    assert_false(there(dir, B, "ram") || there(dir, A, "session.json") || there(dir, D, NULL));
    tidy(NULL, B, true, false); // C was deleted, the machine's disk lies on B
    assert_false(there(dir, C, NULL));
    assert_true(there(dir, B, "disk.qcow2") && there(dir, A, "disk.qcow2"));
    tidy(NULL, "", true, false);
    assert_false(there(dir, A, NULL) || there(dir, B, NULL));
}

static void test_what_is_not_known_is_kept(void **state)
{
    (void)state;
    make_layer(A, "");
    make_layer(B, "");
    tidy(NULL, "", false, false); // a machine runs on nobody knows which
    assert_true(there(dir, A, "disk.qcow2") && there(dir, B, "disk.qcow2"));
    make_layer(A, "");
    write_text(A, "layer.json", "damaged");
    tidy(A, "", true, false);
    assert_true(there(dir, B, "disk.qcow2"));
}

static void test_half_made_layers_go_when_nobody_makes_them(void **state)
{
    (void)state;
    make_layer(A ".tmp", "");
    tidy(NULL, "", true, false);
    assert_true(there(dir, A ".tmp", "ram"));
    tidy(NULL, "", true, true);
    assert_false(there(dir, A ".tmp", NULL));
}

static void write_paused(const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/paused.json", dir);
    unlink(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_paused_json_is_this_sessions(void **state)
{
    (void)state;
    char layer[CK_UUID_MAX], path[PATH_MAX];
    int64_t since = 0;
    assert_int_equal(layer_paused(dir, SESSION, layer, &since), -1);
    write_paused("{\"version\":1,\"id\":\"" SESSION "\",\"layer\":\"" A "\"}");
    assert_int_equal(layer_paused(dir, SESSION, layer, &since), 0);
    assert_string_equal(layer, A);
    assert_true(since > 0);
    assert_int_equal(layer_paused(dir, A, layer, &since), -1);
    static const char *const bad[] = {
        "", "{}", "{\"version\":2,\"id\":\"" SESSION "\",\"layer\":\"" A "\"}",
        "{\"version\":1,\"id\":\"" SESSION "\",\"layer\":\"../../x\"}", "{\"version\":1,\"id\":\"" SESSION "\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_paused(bad[i]);
        assert_int_equal(layer_paused(dir, SESSION, layer, &since), -1);
    }
    snprintf(path, sizeof path, "%s/paused.json", dir);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(layer_paused(dir, SESSION, layer, &since), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_below_is_read_strictly),
        cmocka_unit_test(test_the_origin_names_folders_of_the_cache),
        cmocka_unit_test_setup_teardown(test_a_sealed_layer_is_read_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_somebody_can_still_write_is_not_sealed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sealing_follows_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_shared_is_sealed_to_the_bottom, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_link_brings_the_disks_below_along, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_link_needs_all_of_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_session_moves_into_the_folder_of_a_spare, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_session_that_cannot_move_stays_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_something_lies_on_stays_as_a_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_not_known_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_half_made_layers_go_when_nobody_makes_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_paused_json_is_this_sessions, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
