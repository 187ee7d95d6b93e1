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

int64_t v1_http_date_parse(const char *text)
{
    char day[4], mon[4], zone[4];
    struct tm tm = {.tm_isdst = 0};
    int year;
    if (!text || sscanf(text, "%3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d %3[A-Z]", day, &tm.tm_mday, mon, &year,
                        &tm.tm_hour, &tm.tm_min, &tm.tm_sec, zone) != 8 ||
        strcmp(zone, "GMT") || year < 1970)
        return -1;
    tm.tm_year = year - 1900;
    for (tm.tm_mon = 0; tm.tm_mon < 12; tm.tm_mon++)
        if (!strcmp(months[tm.tm_mon], mon))
            return (int64_t)timegm(&tm);
    return -1;
}
