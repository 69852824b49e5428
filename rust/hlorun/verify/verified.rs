//! A module that was found to be legal, as a type.

use std::ops::Deref;
use std::sync::Arc;

use crate::module::HloModule;

/// A module that keeps every rule. Only [`super::verify`] and [`super::verify_shared`] make one, and
/// nobody can change the module while this exists: what plans it may rely on the rules.
///
/// ```compile_fail
/// # let mut module = hlorun::module::HloModule::default();
/// let verified = hlorun::verify::verify(&module)?;
/// module.warnings.clear();
/// hlorun::plan::compile(&verified, &Default::default())?;
/// # hlorun::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct VerifiedModule<'m>(pub(super) Held<'m>);

#[derive(Clone, Debug)]
pub(super) enum Held<'m> {
    Borrowed(&'m HloModule),
    Shared(Arc<HloModule>),
}

impl Deref for VerifiedModule<'_> {
    type Target = HloModule;

    fn deref(&self) -> &HloModule {
        match &self.0 {
            Held::Borrowed(module) => module,
            Held::Shared(module) => module,
        }
    }
}
