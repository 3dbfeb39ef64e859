//! A scale of colours from dark blue to yellow in steps of equal lightness (the viridis scale).

/// Nine points of the viridis scale, dark to light.
const COLOURS: [(u8, u8, u8); 9] = [
    (68, 1, 84),
    (71, 44, 122),
    (59, 81, 139),
    (44, 113, 142),
    (33, 144, 141),
    (39, 173, 129),
    (92, 200, 99),
    (170, 220, 50),
    (253, 231, 37),
];

/// The colour at `share` (0..1) of the scale, and that of text on it.
pub(super) fn colour(share: f64) -> (String, &'static str) {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let at = share * (COLOURS.len() - 1) as f64;
    let low = (at.floor() as usize).min(COLOURS.len() - 2);
    let (a, b, way) = (COLOURS[low], COLOURS[low + 1], at - low as f64);
    let mix = |a: u8, b: u8| (f64::from(a) + way * (f64::from(b) - f64::from(a))).round() as u8;
    let (red, green, blue) = (mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2));
    // Lightness as the eye weighs the parts (ITU-R BT.601).
    let light = 0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue);
    (format!("#{red:02x}{green:02x}{blue:02x}"), if light > 128.0 { "#1f2328" } else { "#fff" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_readable_on_every_colour() {
        assert_eq!(colour(0.0), ("#440154".to_owned(), "#fff"));
        assert_eq!(colour(1.0), ("#fde725".to_owned(), "#1f2328"));
        assert_eq!(colour(f64::NAN).0, "#440154");
    }
}
