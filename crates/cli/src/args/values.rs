//! Options that take one of some values by its name.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Takes one of these values by its own name; each with its help.
pub(crate) fn values<T>(known: &[(T, &'static str)]) -> impl TypedValueParser<Value = T> + use<T>
where
    T: Copy + Into<&'static str> + Send + Sync + 'static,
{
    let named_so = |(value, help): &(T, _)| ((*value).into(), *value, *help);
    named(&known.iter().map(named_so).collect::<Vec<_>>())
}

/// The same by names of the command line.
pub(crate) fn named<T>(
    known: &[(&'static str, T, &'static str)],
) -> impl TypedValueParser<Value = T> + use<T>
where
    T: Copy + Send + Sync + 'static,
{
    let known = known.to_vec();
    let names = known.iter().map(|(name, _, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names.collect::<Vec<_>>()).map(move |typed: String| {
        let value = known.iter().find(|(name, ..)| *name == typed);
        value.expect("clap lets no other name through").1
    })
}
