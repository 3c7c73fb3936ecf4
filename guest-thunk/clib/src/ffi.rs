//! Pointers that C callers pass, as types: all that is unsafe about them is in this file.
//!
//! A value of these types comes into being only as an argument of an entry point, whose caller promises what
//! `hsakmt.h` asks: a pointer is NULL, or it leads to as many values as the other arguments say, which nobody else
//! writes during the call. What C cannot be trusted with is checked: NULL and counts that no memory could hold
//! are a status. Alignment is never relied on for single values: the structs are packed to 4 bytes.

use std::fmt;
use std::marker::PhantomData;

use hsakmt::Result;
use protocol::hsakmt::{HsaStruct, Layout, Status};

/// The generation of the header that callers of this build have.
pub const LAYOUT: Layout = if cfg!(feature = "layout-356") {
    Layout::V356
} else if cfg!(feature = "layout-360") {
    Layout::V360
} else if cfg!(feature = "layout-368") {
    Layout::V368
} else {
    Layout::V396
};

/// The most elements that an array argument may have: more than any machine has nodes, events or attributes.
const MAX_ELEMENTS: u64 = 1 << 24;

/// Where a result goes.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Refuses NULL.
    ///
    /// # Errors
    /// `INVALID_PARAMETER`.
    pub fn required(self) -> Result<Self> {
        if self.0.is_null() { Err(null()) } else { Ok(self) }
    }

    /// Whether the caller wants no result.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The value that stands there now.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for NULL.
    pub fn get(&self) -> Result<T> {
        In(self.0.cast_const()).get()
    }

    /// Gives the result. Does nothing for NULL: whoever needs it asks [`Out::required`] first.
    pub fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the pointer is not NULL, so by the caller's promise (see the module) a `T` can be written there;
            // it need not be aligned.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Gives several results in a row.
    pub fn set_all(self, values: &[T]) {
        if !self.0.is_null() {
            let (from, to) = (values.as_ptr().cast::<u8>(), self.0.cast::<u8>());
            // SAFETY: the pointer is not NULL, so by the caller's promise (see the module) that many values can be written
            // there, and nobody else uses that memory; bytes need no alignment.
            unsafe { std::ptr::copy_nonoverlapping(from, to, size_of_val(values)) };
        }
    }
}

/// A struct of `hsakmttypes.h`, or an array of them, in the caller's layout: read, written, or both.
#[repr(transparent)]
pub struct Struct<T>(*mut u8, PhantomData<T>);

impl<T: HsaStruct> Struct<T> {
    /// Refuses NULL.
    ///
    /// # Errors
    /// `INVALID_PARAMETER`.
    pub fn required(self) -> Result<Self> {
        if self.0.is_null() { Err(null()) } else { Ok(self) }
    }

    /// The struct as the caller filled it in.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for NULL.
    pub fn get(&self) -> Result<T> {
        if self.0.is_null() {
            return Err(null());
        }
        // No generation has more bytes than the newest, which is `T`.
        let mut storage = T::new_zeroed();
        let size = LAYOUT.size_of::<T>();
        let room = storage.as_mut_bytes().get_mut(..size).unwrap_or_default();
        // SAFETY: the pointer is not NULL, so by the caller's promise (see the module) the struct can be read there, in the
        // caller's layout, whose size this is; `room` has as many bytes, of our own.
        unsafe { std::ptr::copy_nonoverlapping(self.0, room.as_mut_ptr(), room.len()) };
        let bytes = storage.as_bytes().get(..size).unwrap_or_default();
        LAYOUT.decode(bytes).map_err(|_| Status::InvalidParameter)
    }

    /// Fills the struct in. Does nothing for NULL.
    pub fn set(self, value: &T) {
        Out(self.0).set_all(LAYOUT.encode(value).as_bytes());
    }

    /// Fills an array in.
    pub fn set_all(self, values: &[T]) {
        let stride = LAYOUT.size_of::<T>();
        for (index, value) in values.iter().enumerate() {
            Self(self.0.wrapping_add(index * stride), PhantomData).set(value);
        }
    }

    /// The elements of an array.
    ///
    /// # Errors
    /// As [`Array::copy`].
    pub fn copy(&self, count: u64) -> Result<Vec<T>> {
        let count = element_count(self.0.is_null(), count)?;
        let mut elements = list_of(count)?;
        let stride = LAYOUT.size_of::<T>();
        for index in 0..count {
            elements.push(Self(self.0.wrapping_add(index * stride), PhantomData).get()?);
        }
        Ok(elements)
    }
}

/// One value that the caller passes by pointer.
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// The value.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for NULL.
    pub fn get(&self) -> Result<T> {
        if self.0.is_null() {
            return Err(null());
        }
        // SAFETY: the pointer is not NULL, so by the caller's promise (see the module) a `T` can be read there; it
        // need not be aligned.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

/// The first element of an array whose length another argument gives.
#[repr(transparent)]
pub struct Array<T>(*const T);

impl<T: Copy> Array<T> {
    /// Whether the caller passed none.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The elements, copied: the caller may have other threads, and the array need not be aligned.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for NULL with a count, and for a count beyond reason; `NO_MEMORY`.
    pub fn copy(&self, count: u64) -> Result<Vec<T>> {
        let count = element_count(self.0.is_null(), count)?;
        let mut elements = list_of(count)?;
        for index in 0..count {
            elements.push(In(self.0.wrapping_add(index)).get()?);
        }
        Ok(elements)
    }
}

impl<T> Array<T> {
    /// The elements where they are, for calls that must not allocate.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for NULL with a count, a count beyond reason, and an array that is not aligned.
    pub fn as_slice<'a>(&self, count: u64) -> Result<&'a [T]> {
        let count = element_count(self.0.is_null(), count)?;
        if count == 0 {
            return Ok(&[]);
        }
        if !self.0.is_aligned() {
            log::debug!("an array at {:p} is not aligned", self.0);
            return Err(Status::InvalidParameter);
        }
        // SAFETY: the pointer is not NULL and aligned, and by the caller's promise (see the module) that many elements can be
        // read there, which nobody writes during the call. The total is below 2^63 bytes by the bound on the count.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

impl<T> Out<T> {
    /// An array that is read and written where it is, for calls that must not allocate.
    ///
    /// # Errors
    /// As [`Array::as_slice`].
    pub fn as_mut_slice<'a>(self, count: u64) -> Result<&'a mut [T]> {
        let count = element_count(self.0.is_null(), count)?;
        if count == 0 {
            return Ok(&mut []);
        }
        if !self.0.is_aligned() {
            log::debug!("an array at {:p} is not aligned", self.0);
            return Err(Status::InvalidParameter);
        }
        // SAFETY: the pointer is not NULL and aligned, and by the caller's promise (see the module) that many elements can be
        // read and written there, which nobody else does during the call. The total is below 2^63 bytes by the bound
        // on the count.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0, count) })
    }
}

/// A box of ours that C holds, and that several of its threads may use at a time.
#[repr(transparent)]
pub struct Shared<T>(*mut T);

impl<T: Sync> Shared<T> {
    /// Hands a value to C.
    pub fn give(value: Box<T>) -> Self {
        Self(Box::into_raw(value))
    }

    /// What C holds; `None` for NULL.
    pub fn get<'a>(self) -> Option<&'a T> {
        // SAFETY: by the caller's promise (see the module) the pointer is NULL, or it came from `give` and was not taken
        // back; the value is only ever used by shared reference.
        unsafe { self.0.as_ref() }
    }

    /// Takes the value back from C, which may not use it any more.
    pub fn take_back(self) {
        if !self.0.is_null() {
            // SAFETY: the pointer came from `give`, and the caller gives it back, which C does once.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

/// An empty list with room for so many elements.
fn list_of<T>(count: usize) -> Result<Vec<T>> {
    #[cfg(test)]
    tests::gate()?;
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| {
        log::warn!("no memory for {count} elements of {} bytes", size_of::<T>());
        Status::NoMemory
    })?;
    Ok(list)
}

/// How many elements an array has that may be NULL if it has none.
fn element_count(is_null: bool, count: u64) -> Result<usize> {
    if count > 0 && (is_null || count > MAX_ELEMENTS) {
        log::debug!("an array of {count} elements{}", if is_null { " at NULL" } else { "" });
        return Err(Status::InvalidParameter);
    }
    usize::try_from(count).map_err(|_| Status::InvalidParameter)
}

fn null() -> Status {
    log::debug!("a pointer that must not be NULL is");
    Status::InvalidParameter
}

macro_rules! pointer_traits {
    ($($name:ident),*) => {$(
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Pointer::fmt(&self.0, f)
            }
        }
    )*};
}

pointer_traits!(Out, In, Array, Struct, Shared);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use protocol::hsakmt::EventDescriptor;

    use super::*;

    thread_local! {
        /// How many lists get their room before one does not.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Each list that a caller chooses the length of passes here first.
    pub(super) fn gate() -> Result<()> {
        LEFT.with(|left| match left.get() {
            Some(0) => {
                left.set(None);
                Err(Status::NoMemory)
            }
            count => {
                left.set(count.map(|count| count - 1));
                Ok(())
            }
        })
    }

    #[test]
    fn each_list_without_memory_is_a_status_and_the_next_call_works() {
        let (numbers, mut structs) = ([3u32, 4], [EventDescriptor::default(); 2]);
        let array = Array(numbers.as_ptr());
        let list = Struct::<EventDescriptor>(structs.as_mut_ptr().cast(), PhantomData);
        let calls: [&dyn Fn() -> Result<usize>; 2] =
            [&|| array.copy(2).map(|copy| copy.len()), &|| list.copy(2).map(|copy| copy.len())];
        for (number, call) in calls.iter().enumerate() {
            LEFT.set(Some(0));
            assert_eq!(call(), Err(Status::NoMemory), "{number}");
            assert_eq!((LEFT.get(), call()), (None, Ok(2)), "{number} again");
        }
        assert_eq!((array.copy(2), numbers), (Ok(vec![3, 4]), [3, 4]), "what the caller has stays");
    }

    #[test]
    fn null_is_a_status_and_never_followed() {
        assert_eq!(Out::<u32>(std::ptr::null_mut()).required().err(), Some(Status::InvalidParameter));
        Out::<u32>(std::ptr::null_mut()).set(1);
        assert_eq!(In::<u64>(std::ptr::null()).get(), Err(Status::InvalidParameter));
        assert_eq!(Array::<u32>(std::ptr::null()).copy(1), Err(Status::InvalidParameter));
        assert_eq!(Array::<u32>(std::ptr::null()).copy(0), Ok(vec![]));
        assert_eq!(Array(std::ptr::dangling::<u32>()).copy(u64::MAX), Err(Status::InvalidParameter));
    }

    #[test]
    fn an_array_that_does_not_fit_into_memory_is_no_memory() {
        // So many are allowed, but there are no addresses for so many of 16 MiB. Nothing is read before there is room.
        let array =
            || Array(std::ptr::dangling::<[u64; 2 << 20]>()).copy(MAX_ELEMENTS).map(|copy| copy.len());
        // One has to fit on the stack.
        let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(array).expect("a thread");
        assert_eq!(thread.join().expect("no panic"), Err(Status::NoMemory));
    }

    #[test]
    fn values_need_no_alignment() {
        let mut bytes = [0u8; 9];
        let odd = bytes.as_mut_ptr().wrapping_add(1).cast::<u64>();
        Out(odd).set(0x0102_0304_0506_0708);
        assert_eq!(In(odd.cast_const()).get(), Ok(0x0102_0304_0506_0708));
        assert_eq!(Array(bytes.as_ptr().wrapping_add(1)).copy(8), Ok(vec![8, 7, 6, 5, 4, 3, 2, 1]));
    }
}
