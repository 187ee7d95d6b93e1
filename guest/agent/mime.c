// MIME types. Content first, because a name is the user's claim; the ending decides only among kinds
// that share their content's form (text files; office documents, which are zip files).
#include "guest/agent/mime.h"

#include "common/ck_utf8.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct magic {
    unsigned at;
    unsigned n;
    const char *bytes;
    const char *mime;
};
static const struct magic magics[] = {
    {0, 8, "\x89PNG\r\n\x1a\n", "image/png"},
    {0, 3, "\xff\xd8\xff", "image/jpeg"},
    {0, 4, "GIF8", "image/gif"},
    {8, 4, "WEBP", "image/webp"},
    {8, 4, "WAVE", "audio/wav"},
    {8, 4, "AVI ", "video/x-msvideo"},
    {0, 4, "II*\0", "image/tiff"},
    {0, 4, "MM\0*", "image/tiff"},
    {0, 4, "\0\0\1\0", "image/x-icon"},
    {0, 5, "%PDF-", "application/pdf"},
    {0, 4, "%!PS", "application/postscript"},
    {0, 2, "\x1f\x8b", "application/gzip"},
    {0, 3, "BZh", "application/x-bzip2"},
    {0, 6, "\xfd" "7zXZ\0", "application/x-xz"},
    {0, 4, "\x28\xb5\x2f\xfd", "application/zstd"},
    {0, 6, "7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"},
    {257, 5, "ustar", "application/x-tar"},
    {0, 4, "PAR1", "application/vnd.apache.parquet"},
    {0, 6, "ARROW1", "application/vnd.apache.arrow.file"},
    {0, 16, "SQLite format 3\0", "application/vnd.sqlite3"},
    {0, 8, "\x89HDF\r\n\x1a\n", "application/x-hdf5"},
    {0, 6, "\x93NUMPY", "application/x-npy"},
    {0, 4, "\x7f" "ELF", "application/x-executable"},
    {0, 4, "OggS", "audio/ogg"},
    {0, 4, "fLaC", "audio/flac"},
    {0, 3, "ID3", "audio/mpeg"},
    {4, 4, "ftyp", "video/mp4"},
    {0, 4, "\x1a\x45\xdf\xa3", "video/webm"},
    {0, 4, "wOFF", "font/woff"},
    {0, 4, "wOF2", "font/woff2"},
    {0, 2, "BM", "image/bmp"},
};

struct ending {
    const char *ending;
    const char *mime;
};
static const struct ending zips[] = {
    {".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {".odt", "application/vnd.oasis.opendocument.text"},
    {".ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {".epub", "application/epub+zip"},
    {".jar", "application/java-archive"},
    {".npz", "application/x-npz"},
    {".whl", "application/zip"},
};
static const struct ending texts[] = {
    {".csv", "text/csv"},
    {".tsv", "text/tab-separated-values"},
    {".json", "application/json"},
    {".geojson", "application/geo+json"},
    {".jsonl", "application/x-ndjson"},
    {".ndjson", "application/x-ndjson"},
    {".ipynb", "application/x-ipynb+json"},
    {".html", "text/html"},
    {".htm", "text/html"},
    {".svg", "image/svg+xml"},
    {".xml", "application/xml"},
    {".md", "text/markdown"},
    {".py", "text/x-python"},
    {".js", "text/javascript"},
    {".css", "text/css"},
    {".yaml", "application/yaml"},
    {".yml", "application/yaml"},
    {".toml", "application/toml"},
    {".tex", "application/x-tex"},
    {".sh", "application/x-sh"},
    {".sql", "application/sql"},
};

static const char *by_ending(const char *name, const struct ending *table, size_t count, const char *otherwise)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < count; i++) {
        size_t e = strlen(table[i].ending);
        if (n > e && strcasecmp(name + n - e, table[i].ending) == 0)
            return table[i].mime;
    }
    return otherwise;
}
#define BY_ENDING(name, table, otherwise) by_ending(name, table, sizeof(table) / sizeof *(table), otherwise)

// UTF-8 without control characters but white space; the last character may be cut off by the limit.
static bool is_text(const uint8_t *p, size_t n)
{
    size_t bad;
    if (!ck_utf8_valid(p, n, &bad) && (n < AG_MIME_HEAD || n - bad > 3))
        return false;
    for (size_t i = 0; i < n; i++)
        if (p[i] < 0x20 && p[i] != '\n' && p[i] != '\r' && p[i] != '\t' && p[i] != '\f' && p[i] != 0x1b)
            return false;
    return true;
}

static bool starts_with(const uint8_t *p, size_t n, const char *text)
{
    size_t i = n >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (i < n && (p[i] == ' ' || p[i] == '\n' || p[i] == '\r' || p[i] == '\t'))
        i++;
    size_t len = strlen(text);
    return n - i >= len && strncasecmp((const char *)p + i, text, len) == 0;
}

const char *ag_mime_guess(const char *name, const uint8_t *head, size_t n)
{
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
        const struct magic *m = &magics[i];
        // two letters alone would claim texts that begin so
        bool weak = m->n == 2 && m->bytes[0] == 'B' && is_text(head, n);
        if (n >= m->at + m->n && memcmp(head + m->at, m->bytes, m->n) == 0 && !weak)
            return m->mime;
    }
    if (n >= 4 && (memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0))
        return BY_ENDING(name, zips, "application/zip");
    if (!is_text(head, n))
        return "application/octet-stream";
    const char *named = BY_ENDING(name, texts, NULL);
    if (named)
        return named;
    if (starts_with(head, n, "<!doctype html") || starts_with(head, n, "<html"))
        return "text/html";
    if (starts_with(head, n, "<svg"))
        return "image/svg+xml";
    if (starts_with(head, n, "<?xml"))
        return "application/xml";
    return "text/plain";
}
