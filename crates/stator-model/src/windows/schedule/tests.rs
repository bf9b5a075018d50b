use super::*;
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn next(expression: &str, zone: &str, now: &str) -> String {
    let schedule = CronSchedule::parse(expression, Some(zone)).unwrap();
    schedule.next_after(at(now)).map_or_else(|| "never".to_owned(), |at| at.to_string())
}

#[test]
fn schedules_are_read_as_crontab_reads_them() {
    let now = "2026-03-10T10:07:30Z"; // a Tuesday
    let all = [
        "*/5 * * * *",
        "0 * * * *",
        "@hourly",
        "@daily",
        "@weekly",
        "@monthly",
        "@yearly",
        "30 4 1,15 * *",
        "0 22 * * 1-5",
        "0 22 * * MON-FRI",
        "0 0 * * 0",
        "0 0 * * 7",
        "0 0 * * 6-7",
        "0 0 * * 1/2",
        "0 12 29 feb *",
        // Either day will do where both are restricted: the 13th is a Friday, the 11th a Wednesday.
        "0 0 13 * 3",
        "0 0 13 * *",
        "15-45/15 10 * * *",
        "7 10 * * *",
    ]
    .map(|expression| format!("{expression}: {}", next(expression, "UTC", now)));
    insta::assert_snapshot!(all.join("\n"), @r#"
        */5 * * * *: 2026-03-10T10:10:00Z
        0 * * * *: 2026-03-10T11:00:00Z
        @hourly: 2026-03-10T11:00:00Z
        @daily: 2026-03-11T00:00:00Z
        @weekly: 2026-03-15T00:00:00Z
        @monthly: 2026-04-01T00:00:00Z
        @yearly: 2027-01-01T00:00:00Z
        30 4 1,15 * *: 2026-03-15T04:30:00Z
        0 22 * * 1-5: 2026-03-10T22:00:00Z
        0 22 * * MON-FRI: 2026-03-10T22:00:00Z
        0 0 * * 0: 2026-03-15T00:00:00Z
        0 0 * * 7: 2026-03-15T00:00:00Z
        0 0 * * 6-7: 2026-03-14T00:00:00Z
        0 0 * * 1/2: 2026-03-11T00:00:00Z
        0 12 29 feb *: 2028-02-29T12:00:00Z
        0 0 13 * 3: 2026-03-11T00:00:00Z
        0 0 13 * *: 2026-03-13T00:00:00Z
        15-45/15 10 * * *: 2026-03-10T10:15:00Z
        7 10 * * *: 2026-03-11T10:07:00Z
        "#);
}

#[test]
fn the_clock_of_the_zone_counts() {
    insta::assert_snapshot!([
        // Zurich goes from 02:00 to 03:00 on 2026-03-29, and back from 03:00 to 02:00 on 2026-10-25.
        next("30 2 * * *", "Europe/Zurich", "2026-03-28T12:00:00Z"),
        next("30 2 * * *", "Europe/Zurich", "2026-10-24T12:00:00Z"),
        next("30 2 * * *", "Europe/Zurich", "2026-10-25T00:30:00Z"),
        next("30 2 * * *", "Europe/Zurich", "2026-10-25T01:30:00Z"),
        next("0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z"),
        // Samoa had no 30 December 2011.
        next("0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z"),
        next("0 0 * * *", "America/New_York", "2026-03-08T12:00:00Z"),
    ].join("\n"), @r#"
        2026-03-29T01:00:00Z
        2026-10-25T00:30:00Z
        2026-10-25T01:30:00Z
        2026-10-26T01:30:00Z
        2026-01-01T03:30:00Z
        2011-12-30T10:00:00Z
        2026-03-09T04:00:00Z
        "#);
}

#[test]
fn what_is_no_schedule_is_said_to_be_none() {
    let all = [
        ("* * * *", None),
        ("* * * * * *", None),
        ("", None),
        ("@reboot", None),
        ("60 * * * *", None),
        ("* 24 * * *", None),
        ("* * 0 * *", None),
        ("* * 32 * *", None),
        ("* * * 13 *", None),
        ("* * * * 8", None),
        ("* * * * 5-2", None),
        ("*/0 * * * *", None),
        ("20-10 * * * *", None),
        ("? * * * *", None),
        ("L * * * *", None),
        ("0 0 30 2 *", None),
        ("0 0 31 4,6,9,11 *", None),
        ("0 * * * *", Some("Europe/Zürich")),
        ("99999999999999999999 * * * *", None),
    ]
    .map(|(text, zone)| CronSchedule::parse(text, zone).unwrap_err().to_string());
    insta::assert_snapshot!(all.join("\n"), @r#"
        `* * * *` has 4 fields; a schedule has five: minute, hour, day of the month, month, day of the week
        `* * * * * *` has 6 fields; a schedule has five: minute, hour, day of the month, month, day of the week
        `` has 0 fields; a schedule has five: minute, hour, day of the month, month, day of the week
        `@reboot` has 1 fields; a schedule has five: minute, hour, day of the month, month, day of the week
        `60` is not a valid minute: write 0 to 59, `*`, `*/5`, `10-20` or a list of these
        `24` is not a valid hour: write 0 to 23, `*`, `*/2`, `8-18` or a list of these
        `0` is not a valid day of the month: write 1 to 31, `*`, `*/2`, `1-7` or a list of these
        `32` is not a valid day of the month: write 1 to 31, `*`, `*/2`, `1-7` or a list of these
        `13` is not a valid month: write 1 to 12, `jan` to `dec`, `*`, `1-6` or a list of these
        `8` is not a valid day of the week: write 0 to 7 (0 and 7 are Sunday), `sun` to `sat`, `*`, `mon-fri` or a list of these
        `5-2` is not a valid day of the week: write 0 to 7 (0 and 7 are Sunday), `sun` to `sat`, `*`, `mon-fri` or a list of these
        `*/0` is not a valid minute: write 0 to 59, `*`, `*/5`, `10-20` or a list of these
        `20-10` is not a valid minute: write 0 to 59, `*`, `*/5`, `10-20` or a list of these
        `?` is not a valid minute: write 0 to 59, `*`, `*/5`, `10-20` or a list of these
        `L` is not a valid minute: write 0 to 59, `*`, `*/5`, `10-20` or a list of these
        `0 0 30 2 *` never matches: no year has such a day
        `0 0 31 4,6,9,11 *` never matches: no year has such a day
        `Europe/Zürich` is not a time zone: write its IANA name, such as `Europe/Zurich` or `UTC`
        `99999999999999999999` is not a valid minute: write 0 to 59, `*`, `*/5`, `10-20` or a list of these
        "#);
}

/// What a person would do: look at the clock every minute.
fn oracle(schedule: &CronSchedule, now: Timestamp, minutes: i64) -> Option<Timestamp> {
    let local = |second: i64| schedule.zone.to_datetime(Timestamp::from_second(second).unwrap());
    let start = now.as_second().div_euclid(60) * 60 + 60;
    let shows = |time: DateTime| {
        schedule.is_day(time.date())
            && schedule.fields.hours().includes(u32::try_from(time.hour()).unwrap())
            && schedule.fields.minutes().includes(u32::try_from(time.minute()).unwrap())
    };
    (0..minutes).map(|index| start + index * 60).find_map(|second| {
        let (before, after) = (local(second - 60), local(second));
        let skipped = after.duration_since(before).as_mins() - 1;
        let any = (0..skipped.max(0)).any(|gone| shows(before + (gone + 1).minutes()));
        (any || shows(after)).then(|| Timestamp::from_second(second).unwrap())
    })
}

fn field(min: u32, max: u32) -> impl Strategy<Value = String> {
    let number = min..=max;
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => number.clone().prop_map(|n| n.to_string()),
        1 => (1..=max / 2).prop_map(|step| format!("*/{step}")),
        1 => (number.clone(), number.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (number.clone(), number).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases))]

    /// Around both changes of the clock, in zones that change at different hours and by different steps.
    #[test]
    fn the_next_time_is_the_first_that_the_clock_shows(
        minute in field(0, 59), hour in field(0, 23), day in field(1, 28), month in field(1, 12), weekday in field(0, 7),
        zone in prop::sample::select(vec!["UTC", "Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
        change in prop::sample::select(vec!["2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z", "2026-03-08T02:00:00Z", "2026-04-04T10:00:00Z", "2026-10-03T10:00:00Z"]),
        offset in 0_i64..2 * 24 * 3600,
    ) {
        let schedule = CronSchedule::parse(&format!("{minute} {hour} {day} {month} {weekday}"), Some(zone)).unwrap();
        let now = Timestamp::from_second(at(change).as_second() + offset).unwrap();
        let horizon = 4 * 24 * 60;
        let found = schedule.next_after(now).unwrap();
        match oracle(&schedule, now, horizon) {
            Some(expected) => prop_assert_eq!(found, expected),
            None => prop_assert!(found.as_second() > now.as_second() + (horizon - 1) * 60),
        }
    }

    #[test]
    fn no_text_stops_the_reader(text in "[-0-9*/,@a-z? ]{0,40}", any in "\\PC{0,40}") {
        let _ = CronSchedule::parse(&text, None);
        let _ = CronSchedule::parse(&any, Some(&text));
    }
}
