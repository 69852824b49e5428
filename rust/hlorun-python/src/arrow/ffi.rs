//! Columns through the Arrow C data interface.
//!
//! Comes in: a named list of columns of equal length. Goes out: the three C structures a consumer
//! takes over, each with its own share of the columns. Promise: whoever holds a structure may
//! release it at any time and in any order; the columns live until the last one is released.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

/// One column without its name.
#[derive(Clone)]
pub enum Column {
    /// `int64`; bit `i` of the second says that row `i` has a value, none when all have.
    Int64(Vec<i64>, Option<Vec<u8>>),
    /// `double`, as above.
    Float64(Vec<f64>, Option<Vec<u8>>),
    /// `float`: numbers, and for each run of rows which of these it is and how many rows it has; the number
    /// of rows.
    Repeats(Vec<f32>, Vec<(u32, u32)>, usize),
    /// `bool`, one bit per row, and the number of rows.
    Bool(Vec<u8>, usize),
    /// `large_utf8`: the end of row `i` is entry `i + 1`.
    Utf8(Vec<i64>, Vec<u8>),
    /// `large_list` of a column.
    List(Vec<i64>, Box<Column>),
    /// A dictionary: row `i` is row `indices[i]` of a column.
    Dictionary(Vec<i32>, Box<Column>),
    /// `map`: the end of row `i` is entry `i + 1`; keys and values.
    Map(Vec<i32>, Box<(Column, Column)>),
}

/// Tables of one module, which Arrow gets, have none of these: words are written out.
const NOT_EXPORTED: &str = "columns that only tables of many modules have";

impl Column {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Int64(values, _) => values.len(),
            Column::Float64(values, _) => values.len(),
            Column::Repeats(_, _, rows) => *rows,
            Column::Bool(_, rows) => *rows,
            Column::Utf8(offsets, _) | Column::List(offsets, _) => offsets.len() - 1,
            Column::Dictionary(indices, _) => indices.len(),
            Column::Map(offsets, _) => offsets.len() - 1,
        }
    }

    fn format(&self) -> &'static [u8] {
        match self {
            Column::Int64(..) => b"l\0",
            Column::Float64(..) => b"g\0",
            Column::Bool(..) => b"b\0",
            Column::Utf8(..) => b"U\0",
            Column::List(..) => b"+L\0",
            Column::Dictionary(..) | Column::Repeats(..) | Column::Map(..) => {
                unreachable!("{NOT_EXPORTED}")
            }
        }
    }

    fn null_count(&self) -> i64 {
        match self {
            Column::Int64(_, Some(valid)) | Column::Float64(_, Some(valid)) => {
                let set: u32 = valid.iter().map(|byte| byte.count_ones()).sum();
                self.len() as i64 - i64::from(set)
            }
            _ => 0,
        }
    }

    fn buffers(&self) -> Vec<*const c_void> {
        fn of<T>(values: &[T]) -> *const c_void {
            values.as_ptr().cast()
        }
        let valid = |bits: &Option<Vec<u8>>| bits.as_deref().map_or(ptr::null(), of);
        match self {
            Column::Int64(values, bits) => vec![valid(bits), of(values)],
            Column::Float64(values, bits) => vec![valid(bits), of(values)],
            Column::Bool(bits, _) => vec![ptr::null(), of(bits)],
            Column::Utf8(offsets, data) => vec![ptr::null(), of(offsets), of(data)],
            Column::List(offsets, _) => vec![ptr::null(), of(offsets)],
            Column::Dictionary(..) | Column::Repeats(..) | Column::Map(..) => {
                unreachable!("{NOT_EXPORTED}")
            }
        }
    }
}

/// Columns with names.
pub struct Table {
    /// Name and values of each column.
    pub columns: Vec<(&'static str, Column)>,
}

impl Table {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.1.len())
    }
}

const NULLABLE: i64 = 2;

/// `struct ArrowSchema` of the C data interface.
#[repr(C)]
pub struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray` of the C data interface.
#[repr(C)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// `struct ArrowArrayStream` of the C stream interface.
#[repr(C)]
pub struct ArrowArrayStream {
    get_schema: unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int,
    get_next: unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int,
    get_last_error: unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

/// What a schema owns.
struct SchemaParts {
    _name: CString,
    children: Vec<*mut ArrowSchema>,
}

/// What an array owns: its share of the table, and lists the structure points into.
struct ArrayParts {
    _table: Arc<Table>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

struct StreamParts {
    table: Arc<Table>,
    done: bool,
}

macro_rules! released_when_dropped {
    ($($name:ident),*) => {$(
        // SAFETY: what the pointers lead to is owned by the structure and never changes after it is made.
        unsafe impl Send for $name {}

        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: not released yet, or `release` would be empty.
                    unsafe { release(self) };
                }
            }
        }
    )*};
}

released_when_dropped!(ArrowSchema, ArrowArray, ArrowArrayStream);

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the consumer hands over a structure `schema_of` made and nobody has released.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        for &child in &parts.children {
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the consumer hands over a structure `array_of` made and nobody has released. A child
    // or dictionary the consumer moved out has an empty `release`, which its `Drop` respects.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        for &child in &parts.children {
            drop(Box::from_raw(child));
        }
        (*array).release = None;
    }
}

fn schema_of(
    name: &str,
    format: &'static [u8],
    flags: i64,
    children: Vec<ArrowSchema>,
) -> ArrowSchema {
    let mut parts = Box::new(SchemaParts {
        _name: CString::new(name).unwrap_or_default(),
        children: children
            .into_iter()
            .map(|child| Box::into_raw(Box::new(child)))
            .collect(),
    });
    ArrowSchema {
        format: format.as_ptr().cast(),
        name: parts._name.as_ptr(),
        metadata: ptr::null(),
        flags,
        n_children: parts.children.len() as i64,
        children: parts.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(parts).cast(),
    }
}

fn column_schema(name: &str, column: &Column) -> ArrowSchema {
    let children = match column {
        Column::List(_, items) => {
            let mut items = column_schema("item", items);
            items.flags = 0;
            vec![items]
        }
        _ => Vec::new(),
    };
    // Numbers alone may be absent. Which rows have one is not looked at, as all batches of a column must agree.
    let flags = match column {
        Column::Int64(..) | Column::Float64(..) => NULLABLE,
        _ => 0,
    };
    schema_of(name, column.format(), flags, children)
}

fn array_of(
    table: &Arc<Table>,
    length: usize,
    null_count: i64,
    buffers: Vec<*const c_void>,
    children: Vec<ArrowArray>,
) -> ArrowArray {
    let mut parts = Box::new(ArrayParts {
        _table: table.clone(),
        buffers,
        children: children
            .into_iter()
            .map(|child| Box::into_raw(Box::new(child)))
            .collect(),
    });
    ArrowArray {
        length: length as i64,
        null_count,
        offset: 0,
        n_buffers: parts.buffers.len() as i64,
        n_children: parts.children.len() as i64,
        buffers: parts.buffers.as_mut_ptr(),
        children: parts.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(parts).cast(),
    }
}

fn column_array(table: &Arc<Table>, column: &Column) -> ArrowArray {
    let children = match column {
        Column::List(_, items) => vec![column_array(table, items)],
        _ => Vec::new(),
    };
    array_of(
        table,
        column.len(),
        column.null_count(),
        column.buffers(),
        children,
    )
}

/// The schema of the table: a struct of its columns.
pub fn export_schema(table: &Table) -> ArrowSchema {
    let children = table
        .columns
        .iter()
        .map(|(name, column)| column_schema(name, column))
        .collect();
    schema_of("", b"+s\0", 0, children)
}

/// The table as one struct array.
pub fn export_array(table: &Arc<Table>) -> ArrowArray {
    let children = table
        .columns
        .iter()
        .map(|(_, column)| column_array(table, column))
        .collect();
    array_of(table, table.rows(), 0, vec![ptr::null()], children)
}

unsafe extern "C" fn stream_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the stream is one `export_stream` made; `out` is uninitialized memory of the consumer's.
    unsafe {
        let parts = &*(*stream).private_data.cast::<StreamParts>();
        out.write(export_schema(&parts.table));
    }
    0
}

unsafe extern "C" fn stream_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as above; the consumer does not call two functions of a stream at once.
    unsafe {
        let parts = &mut *(*stream).private_data.cast::<StreamParts>();
        let mut array = export_array(&parts.table);
        if parts.done {
            release_array(&mut array);
        }
        parts.done = true;
        out.write(array);
    }
    0
}

unsafe extern "C" fn stream_error(_stream: *mut ArrowArrayStream) -> *const c_char {
    ptr::null()
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: the consumer hands over a structure `export_stream` made and nobody has released.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamParts>()));
        (*stream).release = None;
    }
}

/// The table as a stream of one batch.
pub fn export_stream(table: &Arc<Table>) -> ArrowArrayStream {
    let parts = Box::new(StreamParts {
        table: table.clone(),
        done: false,
    });
    ArrowArrayStream {
        get_schema: stream_schema,
        get_next: stream_next,
        get_last_error: stream_error,
        release: Some(release_stream),
        private_data: Box::into_raw(parts).cast(),
    }
}
