//! Large repositories. The numbers that this prints are what the page on performance cites.

use super::*;
use git2::{ObjectType, Oid};

/// A repository of that many models, a hundred in a folder, each in a folder of its own, with `rest` other files each.
fn large(origin: &OriginRepository, models: usize, rest: usize) -> Oid {
    let other = origin.object(ObjectType::Blob, b"weights elsewhere");
    let names: Vec<String> = (0..rest).map(|n| format!("z{n:02}.txt")).collect();
    let mut teams = Vec::new();
    for team in 0..models / 100 {
        let folders: Vec<(String, Oid)> = (0..100)
            .map(|number| {
                let text = format!("# {team} {number}\n{}", "spec: {}\n".repeat(20));
                let blob = origin.object(ObjectType::Blob, text.as_bytes());
                let mut entries: Vec<(&str, &[u8], Oid)> = vec![("100644", b"model.yaml", blob)];
                entries.extend(names.iter().map(|name| ("100644", name.as_bytes(), other)));
                (format!("model-{number:02}"), origin.tree(&entries))
            })
            .collect();
        let entries: Vec<(&str, &[u8], Oid)> =
            folders.iter().map(|(name, oid)| ("40000", name.as_bytes(), *oid)).collect();
        teams.push((format!("team-{team:03}"), origin.tree(&entries)));
    }
    let entries: Vec<(&str, &[u8], Oid)> = teams.iter().map(|(name, oid)| ("40000", name.as_bytes(), *oid)).collect();
    origin.tree(&entries)
}

#[test]
fn of_a_hundred_thousand_files_only_what_changed_is_fetched_and_read() {
    let place = Place::new();
    let first = place.origin.raw_commit(large(&place.origin, 10_000, 9), None, 1, "all");
    place.origin.point("refs/heads/main", first);
    let mut mirror = place.mirror();
    let fetched = follow(&mut mirror, &main()).unwrap();
    assert_eq!(mirror.tree(&fetched.commit, "").unwrap().files.len(), 10_000);
    let (read, before) = (mirror.objects_read(), mirror.traffic());

    follow(&mut mirror, &main()).unwrap();
    let looked = mirror.traffic();
    let second = place.origin.commit_onto(Some(first), &[("team-042/model-17/model.yaml", "spec: {changed: true}\n")]);
    place.origin.point("refs/heads/main", second);
    let next = follow(&mut mirror, &main()).unwrap();
    let after = mirror.traffic();
    assert_eq!(mirror.changed_paths(&fetched.commit, &next.commit).unwrap().len(), 1);
    assert_eq!(mirror.tree(&next.commit, "").unwrap().files.len(), 10_000);
    let reread = mirror.objects_read() - read;
    let lines = [
        format!("first fetch: {} bytes in {} requests, {read} objects read", fetched.bytes, before.requests),
        format!(
            "nothing moved: {} bytes in {} request",
            looked.received - before.received,
            looked.requests - before.requests
        ),
        format!(
            "one model of 10,000 changed: {} bytes in {} requests, {reread} objects read",
            after.received - looked.received,
            after.requests - looked.requests
        ),
    ];
    println!("{}", lines.join("\n"));
    assert_eq!((looked.requests - before.requests, after.requests - looked.requests, reread), (1, 3, 4));
    assert!(after.received - looked.received < 20_000, "{lines:?}");
}
