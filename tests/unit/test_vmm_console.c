// Console lines of a booting guest, QEMU's version text, the kernel command line.
#include "vmm/boot.h"
#include "vmm/console.h"
#include "vmm/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct seen {
    int n, kinds[16], percent;
    char text[CK_CONSOLE_LINE_MAX];
    size_t longest;
};

static void see(const struct ck_console_line *l, void *user)
{
    struct seen *s = user;
    if (s->n < 16)
        s->kinds[s->n] = l->kind;
    s->n++;
    s->percent = l->percent;
    snprintf(s->text, sizeof s->text, "%s", l->text);
    if (strlen(l->text) > s->longest)
        s->longest = strlen(l->text);
}

static struct seen feed(const char *text, size_t step)
{
    struct ck_console c = {0};
    struct seen s = {0};
    for (size_t i = 0, n = strlen(text); i < n; i += step)
        ck_console_feed(&c, text + i, n - i < step ? n - i : step, see, &s);
    return s;
}

static void the_agents_lines_are_understood_in_any_pieces(void **state)
{
    (void)state;
    const char *text = "[    0.1] Linux\r\ncellkeep-agent: hello\r\ncellkeep-agent: progress 40 importing pandas\n"
                       "cellkeep-agent: template-ready\ncellkeep-agent: failed no disk\n";
    const int want[] = {CK_CONSOLE_OTHER, CK_CONSOLE_HELLO, CK_CONSOLE_PROGRESS, CK_CONSOLE_READY, CK_CONSOLE_FAILED};
    for (size_t step = 1; step < 40; step++) {
        struct seen s = feed(text, step);
        assert_int_equal(s.n, 5);
        assert_memory_equal(s.kinds, want, sizeof want);
        assert_string_equal(s.text, "no disk");
    }
}

static void progress_must_be_a_percentage(void **state)
{
    (void)state;
    struct seen s = feed("cellkeep-agent: progress 100 done\n", 100);
    assert_int_equal(s.kinds[0], CK_CONSOLE_PROGRESS);
    assert_int_equal(s.percent, 100);
    assert_string_equal(s.text, "done");
    assert_int_equal(feed("cellkeep-agent: progress 101 x\n", 100).kinds[0], CK_CONSOLE_OTHER);
    assert_int_equal(feed("cellkeep-agent: progress -1 x\n", 100).kinds[0], CK_CONSOLE_OTHER);
    assert_int_equal(feed("cellkeep-agent: progress x\n", 100).kinds[0], CK_CONSOLE_OTHER);
    assert_int_equal(feed("cellkeep-agent: progress 5x\n", 100).kinds[0], CK_CONSOLE_OTHER);
}

static void nearly_the_words_is_not_the_words(void **state)
{
    (void)state;
    assert_int_equal(feed("cellkeep-agent: hello there\n", 100).kinds[0], CK_CONSOLE_OTHER);
    assert_int_equal(feed("cellkeep-agent: template-ready?\n", 100).kinds[0], CK_CONSOLE_OTHER);
    assert_int_equal(feed("cellkeep-agent: failedly\n", 100).kinds[0], CK_CONSOLE_OTHER);
    assert_int_equal(feed("cellkeep-agent: hello", 100).n, 0); // not yet a line
    assert_int_equal(feed("[ 1.0] x cellkeep-agent: hello\n", 100).kinds[0], CK_CONSOLE_HELLO);
}

static void endless_and_binary_lines_stay_bounded_and_printable(void **state)
{
    (void)state;
    static struct ck_console c;
    struct seen s = {0};
    char junk[4096];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)(i % 255 == '\n' ? 1 : i % 255);
    for (int i = 0; i < 1000; i++)
        ck_console_feed(&c, junk, sizeof junk, see, &s);
    assert_int_equal(s.n, 0);
    ck_console_feed(&c, "\n", 1, see, &s);
    assert_int_equal(s.n, 1);
    assert_true(s.longest < CK_CONSOLE_LINE_MAX);
    for (const char *p = s.text; *p; p++)
        assert_in_range((unsigned char)*p, 0x20, 0x7e);
}

static void the_tail_keeps_the_last_lines_in_order(void **state)
{
    (void)state;
    struct ck_console c = {0};
    struct seen s = {0};
    char tail[256], tiny[8];
    ck_console_feed(&c, "a\nb\n\nc\nd\ne\n", 11, see, &s);
    ck_console_tail(&c, tail, sizeof tail);
    assert_string_equal(tail, "b | c | d | e");
    ck_console_tail(&c, tiny, sizeof tiny);
    assert_string_equal(tiny, "b | c |");
}

static void qemus_version_is_read_whole(void **state)
{
    (void)state;
    struct ck_qemu q = {0};
    assert_int_equal(ck_host_parse_qemu_version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright\n", &q), 0);
    assert_int_equal(q.major, 7);
    assert_int_equal(q.minor, 2);
    assert_string_equal(q.version, "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)");
    assert_true(ck_host_parse_qemu_version("bash: version none", &q) < 0);
    assert_true(ck_host_parse_qemu_version("", &q) < 0);
    assert_true(ck_host_parse_qemu_version("version 7", &q) < 0);
    assert_true(ck_host_parse_qemu_version("version 7.", &q) < 0);
    assert_true(ck_host_parse_qemu_version("version -7.2", &q) < 0);
    assert_true(ck_host_parse_qemu_version("version 99999999999999999999.2", &q) < 0);
}

static void tcg_guests_are_told_their_clock_and_kvm_guests_keep_mitigations(void **state)
{
    (void)state;
    char line[512];
    assert_int_equal(ck_boot_cmdline(CK_ACCEL_TCG, 2600000, "template", line, sizeof line, NULL), 0);
    assert_non_null(strstr(line, " tsc_early_khz=2600000 lpj=10400000 "));
    assert_non_null(strstr(line, " mitigations=off "));
    assert_non_null(strstr(line, " cellkeep.mode=template"));
    assert_int_equal(ck_boot_cmdline(CK_ACCEL_KVM, 0, "probe", line, sizeof line, NULL), 0);
    assert_null(strstr(line, "mitigations"));
    assert_null(strstr(line, "tsc"));
    assert_true(ck_boot_cmdline(CK_ACCEL_KVM, 0, "probe", line, 10, NULL) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_agents_lines_are_understood_in_any_pieces),
        cmocka_unit_test(progress_must_be_a_percentage),
        cmocka_unit_test(nearly_the_words_is_not_the_words),
        cmocka_unit_test(endless_and_binary_lines_stay_bounded_and_printable),
        cmocka_unit_test(the_tail_keeps_the_last_lines_in_order),
        cmocka_unit_test(qemus_version_is_read_whole),
        cmocka_unit_test(tcg_guests_are_told_their_clock_and_kvm_guests_keep_mitigations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
