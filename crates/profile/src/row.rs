//! From row structs to Arrow columns and back.
//!
//! Three traits, from the inside out: a [`Scalar`] is a type that a column can hold (an id, a word, a string);
//! a [`Value`] is a field's type, a scalar or an `Option` of one (a nullable column); a [`Row`] is a struct of
//! values. The `table!` macro writes the `Row`s; a new kind of field needs one `Scalar`.
//!
//! Reading is lenient where that is honest: a column that was not asked for reads as its blank (0, "", the first
//! word), a nullable column that the file lacks reads as none, a needed column that it lacks is an error.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, PrimitiveArray, StringArray, StringViewArray,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use std::sync::Arc;

use crate::error::Error;
use crate::ids::*;
use crate::renumbering::Renumbering;
use numalens_topology::NodeId;

/// A row of a table. Implemented for the structs of [`crate::tables`] by their macro.
pub trait Row: Sized + Send + Sync + Clone + PartialEq + std::fmt::Debug + 'static {
    /// The table's file is `TABLE.parquet`.
    const TABLE: &'static str;
    /// Columns, in order.
    const COLUMNS: &'static [&'static str];

    /// The columns of one batch, opened for [`Row::row`].
    #[doc(hidden)]
    type Columns;
    #[doc(hidden)]
    fn fields() -> Vec<Field>;
    #[doc(hidden)]
    fn arrays(rows: &[Self]) -> Vec<ArrayRef>;
    #[doc(hidden)]
    fn open(batch: &Batch<'_>) -> Result<Self::Columns, Error>;
    #[doc(hidden)]
    fn row(columns: &Self::Columns, index: usize) -> Self;
    /// Gives the row's ids the numbers that they have in another profile. `columns` has a bit for each column that was
    /// decoded, the lowest for the first: what is blank stays so.
    #[doc(hidden)]
    fn renumber(&mut self, ids: &Renumbering, columns: u64);
    /// Gives a column a value that a number stands for, for tests.
    #[doc(hidden)]
    fn set(&mut self, column: usize, value: u64);
}

/// Something to do with every table; see [`crate::tables::visit`].
pub trait Visitor {
    /// Called once per table.
    ///
    /// # Errors
    /// End the visit.
    fn table<T: Row>(&mut self) -> Result<(), Error>;
}

/// A column's Arrow field.
#[doc(hidden)]
pub fn column<V: Value>(name: &'static str) -> Field {
    Field::new(name, V::data_type(), V::NULLABLE)
}

/// Columns as decoded, by name; `wanted` tells the ones that were left out on purpose from the ones that the file
/// lacks.
#[doc(hidden)]
pub struct Batch<'a> {
    pub(crate) path: &'a std::path::Path,
    pub(crate) batch: &'a arrow_array::RecordBatch,
    pub(crate) wanted: &'a [&'a str],
}

impl Batch<'_> {
    fn column<V: Value>(&self, name: &'static str) -> Result<Option<&ArrayRef>, Error> {
        if !self.wanted.contains(&name) {
            return Ok(None);
        }
        let Some(array) = self.batch.column_by_name(name) else {
            if V::NULLABLE {
                return Ok(None);
            }
            return Err(Error::MissingColumn { path: self.path.to_owned(), column: name });
        };
        if *array.data_type() != V::read_type() {
            return Err(self.bad(name, format!("holds {}, expected {}", array.data_type(), V::data_type())));
        }
        if !V::NULLABLE && array.null_count() > 0 {
            return Err(self.bad(name, format!("{} values are missing", array.null_count())));
        }
        Ok(Some(array))
    }

    fn bad(&self, column: &str, why: String) -> Error {
        Error::BadColumn { path: self.path.to_owned(), column: column.to_owned(), why }
    }

    #[doc(hidden)]
    pub fn open<V: Value>(&self, name: &'static str) -> Result<V::Column, Error> {
        V::open(self.column::<V>(name)?).map_err(|why| self.bad(name, why))
    }
}

/// The type of a field.
#[doc(hidden)]
pub trait Value: Sized {
    const NULLABLE: bool;
    type Column;
    fn data_type() -> DataType;
    /// As it is decoded.
    fn read_type() -> DataType;
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a;
    /// `None` when every row shall read as blank. The array has the right type.
    fn open(array: Option<&ArrayRef>) -> Result<Self::Column, String>;
    fn get(column: &Self::Column, index: usize) -> Self;
    fn renumber(&mut self, ids: &Renumbering);
    /// Some value for each number, for tests.
    fn made_of(value: u64) -> Self;
}

/// A type that a column can hold.
#[doc(hidden)]
pub trait Scalar: Sized + Clone {
    /// What a column's builder takes. Values are collected as these first, so that the compiler makes one builder per
    /// type and not one per column.
    type Raw<'a>;
    type Read;
    fn data_type() -> DataType;
    /// As it is decoded.
    fn read_type() -> DataType {
        Self::data_type()
    }
    fn raw(&self) -> Self::Raw<'_>;
    fn required(values: Vec<Self::Raw<'_>>) -> ArrayRef;
    fn optional(values: Vec<Option<Self::Raw<'_>>>) -> ArrayRef;
    fn read(array: &ArrayRef) -> Result<Self::Read, String>;
    fn at(read: &Self::Read, index: usize) -> Self;
    fn blank() -> Self;
    /// Some value for each number, for tests.
    fn made_of(value: u64) -> Self;
    /// The number that an id has in another profile; what is no id stays as it is.
    fn renumbered(self, _: &Renumbering) -> Self {
        self
    }
}

impl<S: Scalar> Value for S {
    const NULLABLE: bool = false;
    type Column = Option<S::Read>;

    fn data_type() -> DataType {
        S::data_type()
    }

    fn read_type() -> DataType {
        S::read_type()
    }

    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a,
    {
        S::required(values.map(S::raw).collect())
    }

    fn open(array: Option<&ArrayRef>) -> Result<Self::Column, String> {
        array.map(S::read).transpose()
    }

    #[inline]
    fn get(column: &Self::Column, index: usize) -> Self {
        column.as_ref().map_or_else(S::blank, |read| S::at(read, index))
    }

    fn renumber(&mut self, ids: &Renumbering) {
        *self = self.clone().renumbered(ids);
    }

    fn made_of(value: u64) -> Self {
        <S as Scalar>::made_of(value)
    }
}

impl<S: Scalar> Value for Option<S> {
    const NULLABLE: bool = true;
    /// With what is null, if anything is.
    type Column = Option<(S::Read, Option<NullBuffer>)>;

    fn data_type() -> DataType {
        S::data_type()
    }

    fn read_type() -> DataType {
        S::read_type()
    }

    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a,
    {
        S::optional(values.map(|value| value.as_ref().map(S::raw)).collect())
    }

    fn open(array: Option<&ArrayRef>) -> Result<Self::Column, String> {
        let nulls = |array: &ArrayRef| array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        array.map(|array| Ok((S::read(array)?, nulls(array)))).transpose()
    }

    #[inline]
    fn get(column: &Self::Column, index: usize) -> Self {
        let (read, nulls) = column.as_ref()?;
        nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index)).then(|| S::at(read, index))
    }

    fn renumber(&mut self, ids: &Renumbering) {
        *self = self.take().map(|value| value.renumbered(ids));
    }

    fn made_of(value: u64) -> Self {
        (value != 7).then(|| S::made_of(value))
    }
}

/// Numbers and the ids that wrap them, with the method of [`Renumbering`] that says what becomes of an id.
macro_rules! numbers {
    ($($ty:ty as $arrow:ty: $wrap:expr, $unwrap:expr $(, $renumber:ident)?;)*) => {$(
        impl Scalar for $ty {
            type Raw<'a> = <$arrow as ArrowPrimitiveType>::Native;
            type Read = ScalarBuffer<<$arrow as ArrowPrimitiveType>::Native>;

            fn data_type() -> DataType {
                <$arrow as ArrowPrimitiveType>::DATA_TYPE
            }

            #[inline]
            fn raw(&self) -> Self::Raw<'_> {
                let unwrap: fn(&Self) -> <$arrow as ArrowPrimitiveType>::Native = $unwrap;
                unwrap(self)
            }

            fn required(values: Vec<Self::Raw<'_>>) -> ArrayRef {
                Arc::new(PrimitiveArray::<$arrow>::from(values))
            }

            fn optional(values: Vec<Option<Self::Raw<'_>>>) -> ArrayRef {
                Arc::new(PrimitiveArray::<$arrow>::from(values))
            }

            fn read(array: &ArrayRef) -> Result<Self::Read, String> {
                array.as_primitive_opt::<$arrow>().map(|array| array.values().clone()).ok_or_else(wrong_type)
            }

            #[inline]
            fn at(read: &Self::Read, index: usize) -> Self {
                $wrap(read[index])
            }

            fn blank() -> Self {
                Self::default()
            }

            fn made_of(value: u64) -> Self {
                $wrap(value as <$arrow as ArrowPrimitiveType>::Native)
            }

            $(fn renumbered(self, ids: &Renumbering) -> Self {
                ids.$renumber(self)
            })?
        }
    )*};
}

fn wrong_type() -> String {
    "has another type than its schema says".to_owned()
}

numbers! {
    u32 as UInt32Type: |value| value, |value| *value;
    u64 as UInt64Type: |value| value, |value| *value;
    NodeId as UInt16Type: NodeId, |id| id.0;
    ProcessId as UInt32Type: ProcessId, |id| id.0, process;
    ThreadId as UInt32Type: ThreadId, |id| id.0, thread;
    SiteId as UInt32Type: SiteId, |id| id.0, site;
    StackId as UInt32Type: StackId, |id| id.0, stack;
    ModuleId as UInt32Type: ModuleId, |id| id.0, module;
    FunctionId as UInt32Type: FunctionId, |id| id.0, function;
    ObjectId as UInt32Type: ObjectId, |id| id.0, object;
    Page as UInt64Type: Page, |page| page.0;
    Bin as UInt32Type: Bin, |bin| bin.0, bin;
}

impl Scalar for f64 {
    type Raw<'a> = f64;
    type Read = Float64Array;

    fn data_type() -> DataType {
        DataType::Float64
    }

    fn raw(&self) -> f64 {
        *self
    }

    fn required(values: Vec<f64>) -> ArrayRef {
        Arc::new(Float64Array::from(values))
    }

    fn optional(values: Vec<Option<f64>>) -> ArrayRef {
        Arc::new(Float64Array::from(values))
    }

    fn read(array: &ArrayRef) -> Result<Self::Read, String> {
        array.as_primitive_opt().cloned().ok_or_else(wrong_type)
    }

    fn at(read: &Self::Read, index: usize) -> Self {
        read.value(index)
    }

    fn blank() -> Self {
        0.0
    }

    fn made_of(value: u64) -> Self {
        if value < 1 << 20 { value as f64 } else { f64::from_bits(value) }
    }
}

impl Scalar for bool {
    type Raw<'a> = bool;
    type Read = BooleanArray;

    fn data_type() -> DataType {
        DataType::Boolean
    }

    fn raw(&self) -> bool {
        *self
    }

    fn required(values: Vec<bool>) -> ArrayRef {
        Arc::new(BooleanArray::from(values))
    }

    fn optional(values: Vec<Option<bool>>) -> ArrayRef {
        Arc::new(BooleanArray::from(values))
    }

    fn read(array: &ArrayRef) -> Result<Self::Read, String> {
        array.as_boolean_opt().cloned().ok_or_else(wrong_type)
    }

    fn at(read: &Self::Read, index: usize) -> Self {
        read.value(index)
    }

    fn blank() -> Self {
        false
    }

    fn made_of(value: u64) -> Self {
        !value.is_multiple_of(2)
    }
}

impl Scalar for String {
    type Raw<'a> = &'a str;
    type Read = StringViewArray;

    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn read_type() -> DataType {
        DataType::Utf8View
    }

    fn raw(&self) -> &str {
        self
    }

    fn required(values: Vec<&str>) -> ArrayRef {
        Arc::new(StringArray::from(values))
    }

    fn optional(values: Vec<Option<&str>>) -> ArrayRef {
        Arc::new(StringArray::from(values))
    }

    fn read(array: &ArrayRef) -> Result<Self::Read, String> {
        array.as_string_view_opt().cloned().ok_or_else(wrong_type)
    }

    fn at(read: &Self::Read, index: usize) -> Self {
        read.value(index).to_owned()
    }

    fn blank() -> Self {
        String::new()
    }

    fn made_of(value: u64) -> Self {
        match value {
            0 => String::new(),
            1 => "\u{1b}]0;a\u{7}\n\u{202e}\u{9b}2J=1+1".to_owned(),
            2 => "=1+1".to_owned(),
            3 => "0-4095".to_owned(),
            4 => "x".repeat(5000),
            value => value.to_string(),
        }
    }
}

/// Words: dictionary-encoded strings in the file, an enum here. A batch's dictionary is translated once.
#[doc(hidden)]
pub struct Words<W> {
    keys: ScalarBuffer<i32>,
    values: Vec<W>,
}

/// What the `words!` macro gives its enums.
#[doc(hidden)]
pub trait Word: Copy + PartialEq + 'static {
    const ALL: &'static [Self];
    fn word(self) -> &'static str;
    fn from_word(word: &str) -> Option<Self>;
    /// Position in `ALL`.
    fn index(self) -> i32;
}

fn word_array<W: Word>(keys: PrimitiveArray<Int32Type>) -> ArrayRef {
    let values = StringArray::from_iter_values(W::ALL.iter().map(|word| word.word()));
    Arc::new(DictionaryArray::new(keys, Arc::new(values)))
}

impl<W: Word> Scalar for W {
    type Raw<'a> = i32;
    type Read = Words<W>;

    fn data_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }

    fn raw(&self) -> i32 {
        self.index()
    }

    fn required(values: Vec<i32>) -> ArrayRef {
        word_array::<W>(values.into())
    }

    fn optional(values: Vec<Option<i32>>) -> ArrayRef {
        word_array::<W>(values.into())
    }

    fn read(array: &ArrayRef) -> Result<Self::Read, String> {
        let array = array.as_dictionary_opt::<Int32Type>().ok_or_else(wrong_type)?;
        let words = array.values().as_string_opt::<i32>().ok_or_else(wrong_type)?;
        let known: Vec<Option<W>> = words.iter().map(|word| word.and_then(W::from_word)).collect();
        // A dictionary may have words that no row uses: a column of nulls comes with an empty one.
        if known.contains(&None) {
            let unknown =
                array.keys().iter().flatten().find(|&key| known.get(key as usize).copied().flatten().is_none());
            if let Some(key) = unknown {
                let word = words.value(key as usize).chars().take(80).collect::<String>();
                let word = word.escape_debug();
                return Err(format!("unknown word `{word}`: written by a newer numalens, or damaged"));
            }
        }
        let values = known.into_iter().map(|word| word.unwrap_or(W::ALL[0])).collect();
        Ok(Words { keys: array.keys().values().clone(), values })
    }

    #[inline]
    fn at(read: &Self::Read, index: usize) -> Self {
        // Arrow has checked the keys of valid rows against the dictionary.
        read.values[read.keys[index] as usize]
    }

    fn blank() -> Self {
        W::ALL[0]
    }

    fn made_of(value: u64) -> Self {
        W::ALL[(value % W::ALL.len() as u64) as usize]
    }
}
