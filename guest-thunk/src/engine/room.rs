//! Memory whose size a caller or the kernel chooses: that there is none is an answer, and not the end of the program.

use protocol::hsakmt::Status;

use super::Result;
use super::gate::before_reserve;

/// Makes room in a list for exactly so many elements more.
///
/// # Errors
/// `NO_MEMORY`.
pub(crate) fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    before_reserve()?;
    list.try_reserve_exact(more).map_err(|_| {
        log::warn!("no memory for {more} elements of {} bytes", size_of::<T>());
        Status::NoMemory
    })
}

/// Appends one element to a list that grows.
///
/// # Errors
/// `NO_MEMORY`.
pub(crate) fn push<T>(list: &mut Vec<T>, one: T) -> Result<()> {
    before_reserve()?;
    list.try_reserve(1).map_err(|_| Status::NoMemory)?;
    list.push(one);
    Ok(())
}

/// The first `most` elements, which are all: `most` is what the iterator is known not to exceed.
///
/// # Errors
/// `NO_MEMORY`.
pub(crate) fn collect<T>(most: usize, elements: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, most)?;
    list.extend(elements.take(most));
    Ok(list)
}

/// `count` times the same.
///
/// # Errors
/// `NO_MEMORY`.
pub(crate) fn filled<T: Clone>(count: usize, with: T) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, count)?;
    list.resize(count, with);
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_no_memory() {
        let mut list = vec![1u64];
        for more in [usize::MAX, usize::MAX / 8, isize::MAX.unsigned_abs() / 8] {
            assert_eq!(reserve(&mut list, more), Err(Status::NoMemory), "{more}");
        }
        assert_eq!(collect(usize::MAX, 0..3u64), Err(Status::NoMemory));
        assert_eq!(filled(usize::MAX, 0u16), Err(Status::NoMemory));
        assert_eq!(list, [1]);
    }

    #[test]
    fn a_list_has_what_was_put_into_it() {
        let mut list = collect(5, 0..3).unwrap();
        push(&mut list, 7).unwrap();
        assert_eq!(list, [0, 1, 2, 7]);
        assert_eq!(filled(2, 9), Ok(vec![9, 9]));
    }
}
