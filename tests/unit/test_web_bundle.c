// The bundle of the web front-end: what is taken from its folder, and which form a client gets.
#include "gateway/web_bundle.h"

#include "common/ck_fs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

static void put(const char *name, const char *text)
{
    char path[128];
    struct ck_err err = CK_ERR_INIT;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(ck_write_file_atomic(path, text, strlen(text), 0644, &err), 0);
}

static int set_up(void **state)
{
    char assets[80];
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ck-bundle.XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(assets, sizeof assets, "%s/assets", dir);
    return mkdir(assets, 0755);
}

static int tear_down(void **state)
{
    struct ck_err err = CK_ERR_INIT;
    (void)state;
    return ck_remove_tree(dir, &err);
}

static void test_files(void **state)
{
    struct web_bundle *b = NULL;
    struct ck_err err = CK_ERR_INIT;
    char link[128];
    (void)state;
    put("index.html", "<base href=\"__CK_BASE__/\"><a href=\"__CK_BASE__/x\">");
    put("assets/a.js", "plain");
    put("assets/a.js.gz", "zipped");
    put("assets/a.js.br", "br");
    put("assets/only.css", "css");
    put("assets/empty.js", "");
    put("assets/font.ttf", "not served");
    snprintf(link, sizeof link, "%s/assets/link.js", dir);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    assert_int_equal(web_bundle_load(dir, "/p", &b, &err), -1); // a link is no file of the bundle
    assert_int_equal(unlink(link), 0);

    assert_int_equal(web_bundle_load(dir, "/p", &b, &err), 0);
    const struct web_file *html = web_bundle_get(b, "index.html"), *js = web_bundle_get(b, "assets/a.js");
    assert_non_null(html);
    assert_int_equal(html->body[WEB_PLAIN].n, strlen("<base href=\"/p/\"><a href=\"/p/x\">"));
    assert_memory_equal(html->body[WEB_PLAIN].p, "<base href=\"/p/\"><a href=\"/p/x\">", html->body[WEB_PLAIN].n);
    assert_string_equal(html->type, "text/html; charset=utf-8");
    assert_non_null(js);
    assert_int_equal(strlen(js->hash), 32);
    assert_int_equal(js->body[WEB_GZIP].n, 6);
    assert_null(web_bundle_get(b, "assets/a.js.gz"));
    assert_null(web_bundle_get(b, "assets/font.ttf"));
    assert_null(web_bundle_get(b, "assets/empty.js"));
    assert_null(web_bundle_get(b, "assets/../index.html"));

    assert_int_equal(web_bundle_choose(js, NULL), WEB_PLAIN);
    assert_int_equal(web_bundle_choose(js, "gzip, deflate, br, zstd"), WEB_BROTLI);
    assert_int_equal(web_bundle_choose(js, "GZIP;q=1.0"), WEB_GZIP);
    assert_int_equal(web_bundle_choose(js, "br;q=0, gzip;q=0.5"), WEB_GZIP);
    assert_int_equal(web_bundle_choose(js, "br;q=0,gzip;q=0"), WEB_PLAIN);
    assert_int_equal(web_bundle_choose(js, "brotli, xgzip"), WEB_PLAIN);
    assert_int_equal(web_bundle_choose(js, ",,; ,"), WEB_PLAIN);
    assert_int_equal(web_bundle_choose(web_bundle_get(b, "assets/only.css"), "gzip, br"), WEB_PLAIN);
    web_bundle_free(b);
}

static void test_no_bundle(void **state)
{
    struct web_bundle *b = NULL;
    struct ck_err err = CK_ERR_INIT;
    char exe[128];
    (void)state;
    assert_int_equal(web_bundle_load(dir, "", &b, &err), -1); // no index.html
    assert_non_null(strstr(err.text, "script/web"));
    snprintf(exe, sizeof exe, "%s/assets/cellkeep", dir);
    assert_int_equal(web_bundle_find(NULL, exe, "", &b, &err), 1);
    assert_null(b);
    web_bundle_free(NULL);
}

static void test_beside_the_program(void **state)
{
    struct web_bundle *b = NULL;
    struct ck_err err = CK_ERR_INIT;
    char exe[128], path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/share/cellkeep/web/assets", dir);
    assert_int_equal(ck_mkdirs(path, 0755, &err), 0);
    snprintf(path, sizeof path, "%s/bin", dir);
    assert_int_equal(ck_mkdirs(path, 0755, &err), 0);
    put("share/cellkeep/web/index.html", "<p>");
    snprintf(exe, sizeof exe, "%s/bin/cellkeep", dir);
    assert_int_equal(web_bundle_find(NULL, exe, "", &b, &err), 0);
    assert_non_null(web_bundle_get(b, "index.html"));
    web_bundle_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_bundle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_beside_the_program, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
