// Range, entity tags and HTTP dates of file requests. Headers of clients are hostile: every number
// is bounded before it is used, and what does not parse is treated as absent.
#include "gateway/v1_range.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const char *skip_ows(const char *s) { return s + strspn(s, " \t"); }

// Digits at *s as a number that saturates; false when there is none.
static bool number(const char **s, uint64_t *out)
{
    const char *p = *s;
    uint64_t v = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        unsigned d = (unsigned)(*p - '0');
        v = v > (UINT64_MAX - d) / 10 ? UINT64_MAX : v * 10 + d;
    }
    bool any = p != *s;
    *s = p;
    *out = v;
    return any;
}

struct v1_range v1_range_parse(const char *header, uint64_t size)
{
    struct v1_range whole = {V1_RANGE_WHOLE, 0, size};
    if (!header || strncasecmp(header, "bytes", 5))
        return whole;
    const char *s = skip_ows(header + 5);
    if (*s++ != '=')
        return whole;
    s = skip_ows(s);
    uint64_t first = 0, last = 0;
    bool has_first = number(&s, &first);
    if (*s++ != '-')
        return whole;
    bool has_last = number(&s, &last);
    if (*skip_ows(s) || (!has_first && !has_last) || (has_first && has_last && last < first))
        return whole;
    if (!has_first) { // the last N bytes
        uint64_t n = last < size ? last : size;
        return n ? (struct v1_range){V1_RANGE_PART, size - n, n} : (struct v1_range){V1_RANGE_UNSATISFIABLE, 0, 0};
    }
    if (first >= size)
        return (struct v1_range){V1_RANGE_UNSATISFIABLE, 0, 0};
    if (!has_last || last >= size)
        last = size - 1;
    return (struct v1_range){V1_RANGE_PART, first, last - first + 1};
}

bool v1_etag_listed(const char *header, const char *etag, bool weak_ok)
{
    if (!header)
        return false;
    const char *s = skip_ows(header);
    if (*s == '*' && !*skip_ows(s + 1))
        return true;
    size_t want = strlen(etag);
    while (*s) {
        bool weak = !strncmp(s, "W/", 2);
        s += weak ? 2 : 0;
        if (*s != '"')
            return false;
        const char *end = strchr(++s, '"');
        if (!end)
            return false;
        if ((!weak || weak_ok) && (size_t)(end - s) == want && !memcmp(s, etag, want))
            return true;
        s = skip_ows(end + 1);
        if (*s == ',')
            s = skip_ows(s + 1);
    }
    return false;
}

static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

void v1_http_date(int64_t unix_s, char out[V1_HTTP_DATE_MAX])
{
    time_t t = (time_t)unix_s;
    struct tm tm;
    if (unix_s < 0 || unix_s > 253402300799 || !gmtime_r(&t, &tm)) { // year 9999: four digits
        t = 0;
        gmtime_r(&t, &tm);
    }
    // Not strftime: its names follow the locale.
    snprintf(out, V1_HTTP_DATE_MAX, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[tm.tm_wday % 7],
             (unsigned)tm.tm_mday % 100, months[tm.tm_mon % 12], (unsigned)(tm.tm_year + 1900) % 10000,
             (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
}

// The form that senders must use; the two that RFC 9110 calls obsolete are not read.
static bool is_http_date(const char *text)
{
    static const char shape[] = "Aaa, 00 Aaa 0000 00:00:00 GMT";
    for (size_t i = 0; i < sizeof shape; i++) { // with the NUL
        char c = text[i], lower = (char)(c | 0x20);
        bool ok = shape[i] == '0'                      ? c >= '0' && c <= '9'
                  : shape[i] == 'A' || shape[i] == 'a' ? lower >= 'a' && lower <= 'z'
                                                       : c == shape[i];
        if (!ok)
            return false;
    }
    return true;
}

static int two_digits(const char *s) { return (s[0] - '0') * 10 + s[1] - '0'; }

int64_t v1_http_date_parse(const char *text)
{
    if (!text || !is_http_date(text))
        return -1;
    struct tm tm = {.tm_mday = two_digits(text + 5),
                    .tm_year = two_digits(text + 12) * 100 + two_digits(text + 14) - 1900,
                    .tm_hour = two_digits(text + 17),
                    .tm_min = two_digits(text + 20),
                    .tm_sec = two_digits(text + 23)};
    if (tm.tm_year < 70 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
        return -1;
    for (tm.tm_mon = 0; tm.tm_mon < 12; tm.tm_mon++)
        if (!strncmp(months[tm.tm_mon], text + 8, 3))
            return (int64_t)timegm(&tm);
    return -1;
}
