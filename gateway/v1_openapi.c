// Builds /openapi.json from the table of operations. Made anew for each request: it is small, and
// asked for once a client.
#include "gateway/v1_openapi.h"

#include "gateway/v1.h"
#include "gateway/v1_schemas.h"

#include <stdlib.h>
#include <string.h>

static json_t *schema_ref(const char *name)
{
    char ref[96];
    bool list = name[0] == '[';
    snprintf(ref, sizeof ref, "#/components/schemas/%.*s", (int)(list ? strcspn(name + 1, "]") : strlen(name)),
             name + list);
    json_t *o = json_pack("{s:s}", "$ref", ref);
    return list ? json_pack("{s:s,s:o}", "type", "array", "items", o) : o;
}

// {"application/json":{"schema":...}} or another media type, by the word in the table.
static json_t *content_of(const char *word)
{
    if (!strcmp(word, "bytes"))
        return json_pack("{s:{}}", "application/octet-stream");
    if (!strcmp(word, "text"))
        return json_pack("{s:{}}", "text/plain");
    if (!strcmp(word, "sse"))
        return json_pack("{s:{}}", "text/event-stream");
    bool file = !strcmp(word, "file"); // or the entries of a folder
    json_t *c = json_pack("{s:{s:o}}", "application/json", "schema", schema_ref(file ? "Folder" : word));
    if (file)
        json_object_set_new(c, "application/octet-stream", json_object());
    if (!strcmp(word, "Cell") || !strcmp(word, "Command"))
        json_object_set_new(c, "text/event-stream", json_object());
    return c;
}

static void add_error(json_t *responses, const char *status, size_t n)
{
    char key[8];
    snprintf(key, sizeof key, "%.*s", (int)n, status);
    if (!strcmp(key, "304")) {
        json_object_set_new(responses, key, json_pack("{s:s}", "description", "the client's copy is current"));
        return;
    }
    json_object_set_new(responses, key,
                        json_pack("{s:s,s:o}", "description", "see message and reason", "content", content_of("Error")));
}

static json_t *responses_of(const struct v1_operation *op)
{
    json_t *o = json_object();
    for (const char *a = op->answer; a && *a; a += strspn(a, "|")) { // "200 Word|201 Word"
        char status[4], word[64];
        size_t n = strcspn(a, "|");
        snprintf(status, sizeof status, "%.3s", a);
        snprintf(word, sizeof word, "%.*s", (int)n - 4, a + 4);
        json_t *answer = json_pack("{s:s}", "description", op->summary);
        if (strcmp(word, "-"))
            json_object_set_new(answer, "content", content_of(word));
        json_object_set_new(o, status, answer);
        a += n;
    }
    for (const char *e = op->errors; *e; e += strspn(e, " ")) {
        size_t n = strcspn(e, " ");
        add_error(o, e, n);
        e += n;
    }
    return o;
}

static json_t *parameters_of(const struct v1_operation *op)
{
    json_t *a = json_array();
    for (const char *p = strchr(op->path, '{'); p; p = strchr(p + 1, '{')) {
        int n = (int)strcspn(p + 1, "}");
        json_array_append_new(a, json_pack("{s:s,s:s#,s:b,s:{s:s}}", "in", "path", "name", p + 1, n, "required", 1,
                                           "schema", "type", "string"));
    }
    for (const char *q = op->query ? op->query : ""; *q; q += strspn(q, " ")) {
        size_t n = strcspn(q, " ");
        char ref[96];
        snprintf(ref, sizeof ref, "#/components/parameters/%.*s", (int)n, q);
        json_array_append_new(a, json_pack("{s:s}", "$ref", ref));
        q += n;
    }
    return a;
}

static json_t *operation(const struct v1_operation *op)
{
    json_t *o = json_pack("{s:s,s:s,s:o,s:o}", "operationId", op->id, "summary", op->summary, "parameters",
                          parameters_of(op), "responses", responses_of(op));
    if (op->request)
        json_object_set_new(o, "requestBody", json_pack("{s:o}", "content", content_of(op->request)));
    if (!strncmp(op->path, "/openapi", 8) || !strncmp(op->path, "/healthz", 8) || !strncmp(op->path, "/readyz", 7))
        json_object_set_new(o, "security", json_array());
    return o;
}

json_t *v1_openapi_document(const char *base_url)
{
    json_t *paths = json_object();
    for (size_t i = 0; i < v1_noperations; i++) {
        const struct v1_operation *op = &v1_operations[i];
        json_t *path = json_object_get(paths, op->path);
        if (!path) {
            path = json_object();
            json_object_set_new(paths, op->path, path);
        }
        json_object_set_new(path, op->method, operation(op));
    }
    json_t *bearer = json_pack("{s:{s:s,s:s}}", "bearer", "type", "http", "scheme", "bearer");
    return json_pack("{s:s,s:{s:s,s:s},s:[{s:s}],s:[{s:[]}],s:o,s:{s:o,s:o,s:o}}", "openapi", "3.1.0", "info", "title",
                     "cellkeep cell API", "version", CK_VERSION, "servers", "url", *base_url ? base_url : "/", "security",
                     "bearer", "paths", paths, "components", "securitySchemes", bearer, "schemas",
                     json_loads(v1_schemas_json, 0, NULL), "parameters", json_loads(v1_parameters_json, 0, NULL));
}

void v1_openapi(struct http_req *r) { http_reply_json(r, 200, v1_openapi_document(http_base_url(r))); }
