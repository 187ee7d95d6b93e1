// The OpenAPI document's fixed parts as JSON text, and the table of operations. v1_openapi.c only.
#pragma once
#include <stddef.h>

struct v1_operation {
    const char *method; // lower case
    const char *path;   // OpenAPI form: /v1/sessions/{id}
    const char *id;     // operationId
    const char *summary;
    const char *query;   // names of components.parameters separated by spaces, NULL = none
    const char *request; // schema name, "bytes", or NULL = no body
    const char *answer;  // "STATUS Schema" of each success, "|" between; Schema: a name, "[name]", "bytes", "file", "sse", "-"
    const char *errors;  // statuses separated by spaces
};

extern const struct v1_operation v1_operations[];
extern const size_t v1_noperations;
extern const char v1_schemas_json[];    // components.schemas
extern const char v1_parameters_json[]; // components.parameters
