//! Code: reading the program's, and writing down what its translation consists of.

pub mod arenas;
mod config;
mod env;
pub mod give_way;
mod operand;
pub mod own_ranges;
pub mod persisted;
mod protected;
mod reclaim;
pub mod smc;
mod translation_env;

pub use config::config;
use hashbrown::hash_map::Entry;
use numalens_translator::{Cache, Watch};
pub use translation_env::{TranslationEnv, Vdso};

/// The translations and what they are made from.
pub struct Code {
    /// Translated fragments.
    pub cache: Cache,
    /// The program's memory and the arenas.
    pub env: TranslationEnv,
    /// See [`Code::reclaim`].
    until_look: u32,
}

impl Code {
    /// What there is at the start.
    pub fn new(cache: Cache, env: TranslationEnv) -> Self {
        Code { cache, env, until_look: 0 }
    }

    /// Has the program come to the agent whenever it comes to `ip`.
    pub fn watch(&mut self, ip: u64) {
        let Code { cache, env, .. } = self;
        if let Entry::Vacant(new) = env.watched.entry(ip) {
            new.insert(Watch::Reached);
            cache.invalidate(env, ip..ip + 1);
        }
    }
}
