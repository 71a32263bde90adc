//! Moments for people: seconds since 1970 as a date and a time in universal time.

const DAY_S: f64 = 86_400.0;

/// A moment as in `2026-03-01T12:00:00.250Z`; as the number that it is where no date has it.
pub(crate) fn utc(seconds: f64) -> String {
    // Until the year 9999.
    if !(0.0..253_402_300_800.0).contains(&seconds) {
        return seconds.to_string();
    }
    let days = (seconds / DAY_S).floor();
    let [year, month, day] = date_of(days as u64);
    let millis = ((seconds - days * DAY_S) * 1000.0) as u64;
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    let (seconds, millis) = (millis / 1000 % 60, millis % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

/// Year, month and day of a number of days since 1970, in years that begin in March: there a leap day is the last one.
fn date_of(days: u64) -> [u64; 3] {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let is_early = month >= 10;
    let number = if is_early { month - 9 } else { month + 3 };
    [
        400 * era + year + u64::from(is_early),
        number,
        day - (153 * month + 2) / 5 + 1,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_the_date_of_the_calendar() {
        for (seconds, shown) in [
            (0.0, "1970-01-01T00:00:00.000Z"),
            (951_782_400.5, "2000-02-29T00:00:00.500Z"),
            (1_772_323_199.999, "2026-02-28T23:59:59.999Z"),
            (1_772_323_200.0, "2026-03-01T00:00:00.000Z"),
            (4_107_542_399.0, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400.0, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(seconds), shown);
        }
        assert_eq!(utc(-1.0), "-1");
        assert_eq!(utc(f64::NAN), "NaN");
    }
}
