//! What a host's own description says of requests and answers, held against real ones.
//!
//! OpenAPI 3.0 (GitHub) and Swagger 2 (Forgejo) are near to JSON Schema and neither is it (`nullable`, bodies as
//! parameters), so the few words of theirs that these documents use are read here. A word that is not known fails.

use super::RecordedRequest;
use serde_json::Value;

/// A description.
pub struct ApiDescription(Value);

impl ApiDescription {
    pub fn github() -> Self {
        Self(serde_json::from_str(include_str!("../../data/forge/github.json")).unwrap())
    }

    pub fn forgejo() -> Self {
        Self(serde_json::from_str(include_str!("../../data/forge/forgejo.json")).unwrap())
    }

    /// The documented example of an operation's answer.
    pub fn example(&self, operation: &str) -> Value {
        let example = &self.0["x-examples"][operation];
        assert!(example.is_object() || example.is_array(), "no example of {operation}");
        example.clone()
    }

    /// The operation that a request is one of, and what is wrong with the request.
    pub fn check_request(&self, seen: &RecordedRequest) -> Result<&Value, String> {
        let operation = self.operation(seen).ok_or_else(|| format!("no operation {} {}", seen.method, seen.place()))?;
        let parameters: Vec<&Value> =
            operation["parameters"].as_array().into_iter().flatten().map(|one| self.resolve(one)).collect();
        for (name, value) in &seen.query {
            let known = parameters.iter().find(|one| one["in"] == "query" && one["name"] == name.as_str());
            let known = known.ok_or_else(|| format!("`{name}` is no parameter of {} {}", seen.method, seen.place()))?;
            let schema = if known["schema"].is_object() { &known["schema"] } else { *known };
            let value = match schema["type"].as_str() {
                Some("integer") => Value::from(value.parse::<i64>().map_err(|_| format!("`{name}` is no number"))?),
                _ => Value::from(value.as_str()),
            };
            self.check(schema, &value, name, true)?;
        }
        let by_body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let by_parameter = parameters.iter().find(|one| one["in"] == "body").map(|one| &one["schema"]);
        match (by_parameter.or(by_body.is_object().then_some(by_body)), &seen.body) {
            (Some(schema), Some(body)) => self.check(schema, body, "body", true)?,
            (None, Some(_)) => return Err("a body that the operation does not take".to_owned()),
            (_, None) => {}
        }
        Ok(operation)
    }

    /// What is wrong with an answer of an operation.
    pub fn check_answer(&self, operation: &Value, status: u16, body: &Value) -> Result<(), String> {
        let Some(answer) = operation["responses"].get(status.to_string()) else {
            // Refusals are left out of the documents.
            return if status >= 300 { Ok(()) } else { Err(format!("the operation never answers {status}")) };
        };
        let answer = self.resolve(answer);
        let open = &answer["content"]["application/json"]["schema"];
        let schema = if open.is_object() { open } else { &answer["schema"] };
        if schema.is_object() { self.check(schema, body, "answer", false) } else { Ok(()) }
    }

    fn operation(&self, seen: &RecordedRequest) -> Option<&Value> {
        let paths = self.0["paths"].as_object().unwrap();
        let fits = |template: &str| {
            let parts: Vec<&str> = template.trim_start_matches('/').split('/').collect();
            parts.len() == seen.path.len()
                && parts.iter().zip(&seen.path).all(|(part, given)| part.starts_with('{') || part == given)
        };
        let (_, methods) = paths.iter().find(|(template, _)| fits(template))?;
        methods.get(seen.method.to_lowercase())
    }

    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(reference) => self.resolve(self.0.pointer(reference.trim_start_matches('#')).unwrap()),
            None => value,
        }
    }

    /// Requests are held to the properties that are named; answers may have more, as hosts add fields.
    fn check(&self, schema: &Value, value: &Value, at: &str, request: bool) -> Result<(), String> {
        let schema = self.resolve(schema);
        if value.is_null() {
            // GitHub's description of one pull request forgets that a fork may be gone; that of the list does not.
            let gone = !request && at.ends_with("head.repo");
            let may =
                gone || schema["nullable"] == true || schema["x-nullable"] == true || self.is_swagger() && !request;
            return if may || schema.get("type").is_none() { Ok(()) } else { Err(format!("{at} is null")) };
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(all) = schema[word].as_array() {
                if !all.iter().any(|one| self.check(one, value, at, request).is_ok()) {
                    return Err(format!("{at} is none of {word}"));
                }
                return Ok(());
            }
        }
        if let Some(all) = schema["allOf"].as_array() {
            return all.iter().try_for_each(|one| self.check(one, value, at, request));
        }
        if let Some(allowed) = schema["enum"].as_array()
            && !allowed.contains(value)
        {
            return Err(format!("{at} is {value}, which is none of {}", schema["enum"]));
        }
        let fits = match schema["type"].as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some(other) => panic!("the type `{other}` of {at} is new here"),
            None => true,
        };
        if !fits {
            return Err(format!("{at} is {value}, which is no {}", schema["type"]));
        }
        if schema["format"] == "date-time" {
            let text = value.as_str().unwrap_or_default();
            text.parse::<jiff::Timestamp>().map_err(|_| format!("{at} is `{text}`, which is no time"))?;
        }
        if let Some(items) = value.as_array() {
            for (number, item) in items.iter().enumerate() {
                self.check(&schema["items"], item, &format!("{at}[{number}]"), request)?;
            }
        }
        if let Some(fields) = value.as_object() {
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !fields.contains_key(name) {
                    return Err(format!("{at} lacks `{name}`"));
                }
            }
            for (name, field) in fields {
                match schema["properties"].get(name) {
                    Some(known) => self.check(known, field, &format!("{at}.{name}"), request)?,
                    None if request && schema["additionalProperties"].is_null() => {
                        return Err(format!("{at} has no `{name}`"));
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn is_swagger(&self) -> bool {
        self.0.get("swagger").is_some()
    }
}
