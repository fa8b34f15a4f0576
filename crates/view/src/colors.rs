//! One scale of colours for terminals and pages: blue is local, orange remote, grey what has no distance; the more, the
//! stronger; below a hundredth nothing is filled. The hues are of Okabe and Ito's set, which people of any colour
//! vision tell apart. `html/style.css` and `ui/src/lib/colors.ts` have the same.

/// What a figure is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Local,
    Remote,
    /// Of unpinned threads, or without a home.
    Undefined,
}

impl Kind {
    /// Red, green, blue.
    pub fn rgb(self) -> (u8, u8, u8) {
        match self {
            Kind::Local => (0, 114, 178),
            Kind::Remote => (213, 94, 0),
            Kind::Undefined => (128, 128, 128),
        }
    }
}

/// Percent below which nothing is filled.
const LEAST: f64 = 1.0;

/// How strong a share in percent is, from 0 to 1; none: it is not filled. The eye tells small shares apart better on a
/// root scale.
pub fn strength(percent: f64) -> Option<f64> {
    (percent >= LEAST).then(|| 0.12 + 0.88 * (percent.min(100.0) / 100.0).sqrt())
}

/// The colour of a share on a dark ground, where white can be read on all of it.
pub fn on_dark(kind: Kind, percent: f64) -> Option<(u8, u8, u8)> {
    let strength = strength(percent)?;
    let (r, g, b) = kind.rgb();
    let mixed = |full: u8| (24.0 + (f64::from(full) * 0.85 - 24.0) * strength).clamp(0.0, 255.0) as u8;
    Some((mixed(r), mixed(g), mixed(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards that what is next to nothing looks like nothing, and that more looks like more.
    #[test]
    fn the_more_the_stronger_and_the_least_not_at_all() {
        assert_eq!((strength(0.0), strength(0.99)), (None, None));
        let levels: Vec<f64> = [1.0, 5.0, 25.0, 100.0].into_iter().filter_map(strength).collect();
        assert_eq!(levels.len(), 4);
        assert!(levels.windows(2).all(|pair| pair[0] < pair[1]) && levels[3] <= 1.0, "{levels:?}");
        // Blue and orange differ in lightness of their own channels at every strength.
        for percent in [1.0, 10.0, 100.0] {
            let (local, remote) = (on_dark(Kind::Local, percent).unwrap(), on_dark(Kind::Remote, percent).unwrap());
            assert!(local.2 > local.0 && remote.0 > remote.2, "{local:?} {remote:?}");
        }
    }
}
