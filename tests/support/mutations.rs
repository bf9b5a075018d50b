//! What can be done to a signed body on its way.

/// Six changed bodies, each with what was done to it. None of them has the signature of the one that was signed.
pub fn mutated_bodies(body: &[u8]) -> [(&'static str, Vec<u8>); 6] {
    let middle = body.len() / 2;
    [
        ("a bit", body.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == middle)).collect()),
        ("its end cut off", body[..body.len() - 1].to_vec()),
        ("a space behind it", [body, b" "].concat()),
        ("a space before it", [b" ", body].concat()),
        ("twice", [body, body].concat()),
        ("nothing", Vec::new()),
    ]
}

/// Four signatures that are not the one of a body, each with what was done to it. The signature starts with `prefix`.
pub fn mutated_signatures(prefix: &str, signature: &str, of_another: &str) -> [(&'static str, String); 4] {
    let value = &signature[prefix.len()..];
    [
        ("another body's", of_another.to_owned()),
        ("turned round", format!("{prefix}{}", value.chars().rev().collect::<String>())),
        ("cut short", signature[..signature.len() - 2].to_owned()),
        ("doubled", format!("{signature}{value}")),
    ]
}
