//! The OpenAPI document, made of the table of endpoints and of the types that they answer with.

use super::endpoint::{ApiAnswer, ApiEndpoint, ApiParameter, ParameterPlace};
use crate::models::query::MAX_REPEATS;
use crate::problem::{ProblemDetails, ProblemKind};
use crate::source_action::{SourceAction, SourceActionRequest};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use stator_model::intent::schema::{SchemaKind, document_schema};

/// Where it is served.
pub const OPENAPI_PATH: &str = "/api/v1/openapi.json";

/// The OpenAPI 3.1 document of these endpoints.
pub fn openapi(endpoints: &[ApiEndpoint]) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .for_serialize()
        .into_generator();
    let problem = generator.subschema_for::<ProblemDetails>().to_value();
    let paths: Map<String, Value> = endpoints
        .iter()
        .map(|endpoint| {
            (
                endpoint.path.to_owned(),
                json!({endpoint.method().to_lowercase(): operation(endpoint, &problem, &mut generator)}),
            )
        })
        .collect();
    let mut schemas = generator.take_definitions(true);
    add_model_file(&mut schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "stator",
            "version": "1",
            "description": "Models, sources and GPUs as stator sees them, and plans of edited models. The API writes \
                            nothing to the cluster: change models in git, with a pull request from here if you like. Fields may be added. Times are RFC 3339 in UTC.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "security": [{"link": []}, {"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "link": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "stator-PORT",
                    "description": "Set by the link that stator prints; PORT is the port of the address. Not for pages \
                                    of sources of a cluster.",
                },
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the cluster for the audience of these pages (TokenReview): \
                                    `kubectl create token NAME --audience stator`. For pages of sources of a cluster.",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "stator-session",
                    "description": "Set by signing in with a token; `__Host-stator-session` where the address is https.",
                },
            },
        },
    })
}

/// The schema of a `model.yaml`, with its parts under names of their own.
fn add_model_file(schemas: &mut Map<String, Value>) {
    let mut root = document_schema(SchemaKind::Intent);
    let parts = root.as_object_mut().and_then(|root| {
        root.remove("$schema");
        root.remove("definitions")
    });
    let own = |name: &str| format!("ModelFile.{name}");
    let rename = |schema: &mut Value| point_to(schema, &|name| format!("#/components/schemas/{}", own(name)));
    for (name, mut part) in parts.and_then(|parts| parts.as_object().cloned()).unwrap_or_default() {
        rename(&mut part);
        schemas.insert(own(&name), part);
    }
    rename(&mut root);
    schemas.insert("ModelFile".to_owned(), root);
}

/// Points references of a draft-07 schema to where its parts are.
fn point_to(schema: &mut Value, address: &impl Fn(&str) -> String) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/definitions/")
            {
                *reference = address(name);
            }
            map.values_mut().for_each(|value| point_to(value, address));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| point_to(value, address)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn operation(endpoint: &ApiEndpoint, problem: &Value, generator: &mut SchemaGenerator) -> Value {
    let mut answers = Map::new();
    answers.insert(success_status(endpoint.answer).to_owned(), success(endpoint.answer, generator));
    let has = |place: ParameterPlace| endpoint.parameters.iter().any(|one| one.place == place);
    let mut problems = vec![
        ProblemKind::SignInRequired,
        ProblemKind::WrongHost,
        ProblemKind::ReviewFailed,
        ProblemKind::TooManyAttempts,
    ];
    match endpoint.answer {
        ApiAnswer::Json { .. } => {
            problems.push(ProblemKind::InvalidParameter);
            answers
                .insert("304".to_owned(), json!({"description": "Not modified: the answer matches `If-None-Match`."}));
        }
        ApiAnswer::Draft { .. } | ApiAnswer::Proposal { .. } => problems.extend([
            ProblemKind::InvalidParameter,
            ProblemKind::CrossOrigin,
            ProblemKind::NotFound,
            ProblemKind::BodyLate,
            ProblemKind::ReplicasNotOwned,
            ProblemKind::BodyTooLarge,
            ProblemKind::MediaType,
            ProblemKind::InvalidModel,
            ProblemKind::OutOfTime,
        ]),
        ApiAnswer::Action { .. } => problems.extend([
            ProblemKind::InvalidParameter,
            ProblemKind::CrossOrigin,
            ProblemKind::BodyLate,
            ProblemKind::NotPossible,
            ProblemKind::BodyTooLarge,
            ProblemKind::MediaType,
            ProblemKind::OutOfTime,
        ]),
        ApiAnswer::Tree { .. } => {
            problems.extend([ProblemKind::InvalidParameter, ProblemKind::NotReadNow, ProblemKind::OutOfTime])
        }
        ApiAnswer::Log => problems.extend([
            ProblemKind::InvalidParameter,
            ProblemKind::NotReadNow,
            ProblemKind::OutOfTime,
            ProblemKind::TooManyStreams,
        ]),
        ApiAnswer::Stream => problems.push(ProblemKind::TooManyStreams),
        ApiAnswer::OpenApi => {
            answers
                .insert("304".to_owned(), json!({"description": "Not modified: the answer matches `If-None-Match`."}));
        }
    }
    if let ApiAnswer::Proposal { .. } = endpoint.answer {
        answers.insert("200".to_owned(), success(endpoint.answer, generator));
        problems.extend([ProblemKind::NotPossible, ProblemKind::NotProposed]);
    }
    if has(ParameterPlace::Path) {
        problems.push(ProblemKind::Forbidden);
        problems.push(ProblemKind::NotFound);
    }
    if endpoint.parameters.iter().any(|one| one.name == "continue") {
        problems.push(ProblemKind::Expired);
    }
    for kind in problems {
        let answer = json!({
            "description": kind.title(),
            "content": {"application/problem+json": {"schema": problem}},
        });
        answers.insert(kind.status().to_string(), answer);
    }
    let mut operation = json!({
        "operationId": endpoint.operation,
        "summary": endpoint.summary,
        "parameters": endpoint.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "responses": answers,
    });
    if let ApiAnswer::Action { action, schema: _ } = endpoint.answer {
        let request = generator.subschema_for::<SourceActionRequest>().to_value();
        operation["requestBody"] = json!({
            "required": action == SourceAction::Approve,
            "content": {"application/json": {"schema": request}},
        });
    } else if endpoint.answer.takes_body() {
        operation["requestBody"] = json!({
            "required": true,
            "description": "The content of a `model.yaml`, at most 1 MiB. Lines and columns in the answer refer to this text.",
            "content": {
                "application/yaml": {"schema": {"$ref": "#/components/schemas/ModelFile"}},
                "application/json": {"schema": {"$ref": "#/components/schemas/ModelFile"}},
            },
        });
    }
    operation
}

fn success_status(answer: ApiAnswer) -> &'static str {
    match answer {
        ApiAnswer::Proposal { .. } => "201",
        ApiAnswer::Action { .. } => "202",
        ApiAnswer::Json { .. }
        | ApiAnswer::Draft { .. }
        | ApiAnswer::Tree { .. }
        | ApiAnswer::Log
        | ApiAnswer::Stream
        | ApiAnswer::OpenApi => "200",
    }
}

fn success(answer: ApiAnswer, generator: &mut SchemaGenerator) -> Value {
    let etag = json!({"ETag": {"description": "Changes whenever the answer changes.", "schema": {"type": "string"}}});
    match answer {
        ApiAnswer::Json { schema, body: _ } => json!({
            "description": "OK",
            "headers": etag,
            "content": {"application/json": {"schema": schema(generator).to_value()}},
        }),
        ApiAnswer::Action { action: _, schema } => json!({
            "description": "Asked; the source shows what comes of it.",
            "content": {"application/json": {"schema": schema(generator).to_value()}},
        }),
        ApiAnswer::Proposal { schema } => json!({
            "description": "The pull request: 201 for a new one, 200 for one that proposes the same.",
            "content": {"application/json": {"schema": schema(generator).to_value()}},
        }),
        ApiAnswer::Log => json!({
            "description": "OK",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }),
        ApiAnswer::Draft { schema, body: _ } | ApiAnswer::Tree { schema } => json!({
            "description": "OK",
            "content": {"application/json": {"schema": schema(generator).to_value()}},
        }),
        ApiAnswer::Stream => json!({
            "description": "OK",
            "content": {"text/event-stream": {}},
        }),
        ApiAnswer::OpenApi => json!({
            "description": "OK",
            "headers": etag,
            "content": {"application/json": {"schema": {"type": "object"}}},
        }),
    }
}

fn parameter(parameter: &ApiParameter) -> Value {
    let ApiParameter { name, place, description, allowed, pattern, max_length } = parameter;
    let mut text = json!({"type": "string"});
    if !allowed.is_empty() {
        text["enum"] = json!(allowed);
    } else if *max_length > 0 {
        text["maxLength"] = json!(max_length);
    }
    if !pattern.is_empty() {
        text["pattern"] = json!(pattern);
    }
    let (where_it_stands, schema) = match place {
        ParameterPlace::Path => ("path", text),
        ParameterPlace::Query => ("query", text),
        ParameterPlace::RepeatedQuery => ("query", json!({"type": "array", "maxItems": MAX_REPEATS, "items": text})),
        ParameterPlace::NumberQuery(most) => ("query", json!({"type": "integer", "minimum": 1, "maximum": most})),
    };
    let mut parameter = json!({
        "name": name,
        "in": where_it_stands,
        "required": *place == ParameterPlace::Path,
        "description": description,
        "schema": schema,
    });
    if *place != ParameterPlace::Path {
        // As forms send fields that nobody filled in.
        parameter["allowEmptyValue"] = json!(true);
    }
    parameter
}
