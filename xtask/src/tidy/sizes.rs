//! Rules about sizes: fields of structs, lines of functions. Tests are left out.

use super::Tree;
use super::offenders::{Offence, PATH};
use super::syntax::{Module, is_test};
use std::collections::BTreeMap;
use syn::visit::{self, Visit};
use syn::{Block, Signature};

/// Fields of a struct that is one thing.
const MAX_FIELDS: usize = 15;
/// Lines of a function, from its name to its last brace.
const MAX_LINES: usize = 70;

/// A struct with more fields is several things, or has a reason.
pub fn structs_are_small(tree: &Tree) -> Vec<Offence> {
    let text = |fields| format!("{fields} fields ({MAX_FIELDS} at most): divide it, or give the reason in {PATH}");
    offences(tree, |sizes| &sizes.fields, MAX_FIELDS, text)
}

/// A longer function does several things, or has a reason.
pub fn functions_are_short(tree: &Tree) -> Vec<Offence> {
    let text = |lines| format!("{lines} lines ({MAX_LINES} at most): divide it, or give the reason in {PATH}");
    offences(tree, |sizes| &sizes.lines, MAX_LINES, text)
}

/// A line and a size, by name.
type Figures = BTreeMap<String, (usize, usize)>;

fn offences(tree: &Tree, of: fn(&Sizes) -> &Figures, most: usize, text: impl Fn(usize) -> String) -> Vec<Offence> {
    let mut offences = Vec::new();
    for module in tree.crates().iter().flat_map(|of_crate| &of_crate.modules) {
        let sizes = Sizes::of(module);
        for (name, &(line, size)) in of(&sizes).iter().filter(|(_, (_, size))| *size > most) {
            offences.push(Offence { line, ..Offence::new(&module.path, name, size, text(size)) });
        }
    }
    offences
}

/// What a module's structs and functions measure.
#[derive(Default)]
struct Sizes {
    fields: Figures,
    lines: Figures,
    /// The type or trait whose methods are looked at.
    owner: Option<String>,
}

impl Sizes {
    fn of(module: &Module) -> Self {
        let mut sizes = Sizes::default();
        module.items.iter().for_each(|item| sizes.visit_item(item));
        sizes
    }

    fn function(&mut self, signature: &Signature, body: &Block) {
        let name = self.owner.iter().cloned().chain([signature.ident.to_string()]).collect::<Vec<_>>().join("::");
        let first = signature.fn_token.span.start().line;
        let last = body.brace_token.span.close().end().line;
        enter(&mut self.lines, name, first, last - first + 1);
    }

    fn with_owner(&mut self, owner: Option<String>, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.owner, owner);
        visit(self);
        self.owner = outer;
    }
}

/// Of several with one name (for other targets, say) the largest stands for all.
fn enter(figures: &mut Figures, name: String, line: usize, size: usize) {
    let figure = figures.entry(name).or_insert((line, size));
    if size > figure.1 {
        *figure = (line, size);
    }
}

impl Visit<'_> for Sizes {
    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        enter(&mut self.fields, item.ident.to_string(), item.ident.span().start().line, item.fields.len());
    }

    fn visit_item_fn(&mut self, item: &syn::ItemFn) {
        self.with_owner(None, |sizes| {
            sizes.function(&item.sig, &item.block);
            visit::visit_item_fn(sizes, item);
        });
    }

    fn visit_item_impl(&mut self, item: &syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.with_owner(name, |sizes| visit::visit_item_impl(sizes, item));
    }

    fn visit_item_trait(&mut self, item: &syn::ItemTrait) {
        self.with_owner(Some(item.ident.to_string()), |sizes| visit::visit_item_trait(sizes, item));
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&Tree) -> Vec<Offence>, source: &str) -> Vec<(usize, String, usize)> {
        let found = rule(&Tree::of(&[("x/Cargo.toml", ""), ("x/src/lib.rs", source)]));
        found.into_iter().map(|offence| (offence.line, offence.name, offence.figure)).collect()
    }

    #[test]
    fn fields() {
        let with =
            |fields| format!("\nstruct S {{ {} }}", (0..fields).map(|n| format!("f{n}: u8, ")).collect::<String>());
        assert_eq!(check(structs_are_small, &with(15)), []);
        assert_eq!(check(structs_are_small, &with(16)), [(2, "S".to_owned(), 16)]);
        assert_eq!(check(structs_are_small, &format!("#[cfg(test)]{}", with(16))), []);
    }

    #[test]
    fn lines() {
        let body = |lines: usize| format!("fn f() {{\n{}}}\n", "\n".repeat(lines - 2));
        let found = |source: String| check(functions_are_short, &source);
        assert_eq!(found(body(70)), []);
        assert_eq!(found(format!("/// Doc.\n{}", body(71))), [(2, "f".to_owned(), 71)]);
        assert_eq!(found(format!("impl a::T<u8> {{ {} }}", body(71))), [(1, "T::f".to_owned(), 71)]);
        assert_eq!(found(format!("impl Clone for T {{ {} }}", body(71))), [(1, "T::f".to_owned(), 71)]);
        assert_eq!(found(format!("trait T {{ {} }}", body(71))), [(1, "T::f".to_owned(), 71)]);
        assert_eq!(found(format!("#[cfg(test)] mod tests {{ {} }}", body(71))), []);
    }
}
