//! Sizes in bytes, for people.

/// Returns `count` with a unit of SI: `999 bytes`, `1.2 kB`.
pub(crate) fn byte_count(count: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let (mut unit, mut tenths) = (None, count);
    for name in UNITS {
        // With one digit after the point, and without floating point.
        let whole = if unit.is_some() { tenths / 10 } else { tenths };
        if whole < 1000 {
            break;
        }
        tenths = whole / 100;
        unit = Some(name);
    }
    match unit {
        None => crate::run_view::count(count, "byte"),
        Some(name) => format!("{}.{} {name}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        for (count, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (999_999, "999.9 kB"),
            (1_000_000, "1.0 MB"),
            (3_150_000, "3.1 MB"),
            (u64::MAX, "18446744.0 TB"),
        ] {
            assert_eq!(byte_count(count), text);
        }
    }
}
