//! Copies and comparisons that the compiler calls by name. There is no libc to bring them; loops
//! are slow and enough, since a job is a few kilobytes. Memory is cleared by words: the observer
//! clears room for paths at each call.

/// # Safety
/// As C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    for index in 0..bytes {
        // SAFETY: the caller promises `bytes` readable and writable bytes; volatile keeps the
        // compiler from turning this loop into a call of itself.
        unsafe { to.add(index).write_volatile(from.add(index).read()) };
    }
    to
}

/// # Safety
/// As C's `memmove`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if (to as usize) <= (from as usize) {
        // SAFETY: copying upwards reads each byte before it is overwritten.
        return unsafe { memcpy(to, from, bytes) };
    }
    for index in (0..bytes).rev() {
        // SAFETY: as in memcpy; copying downwards, for the other overlap.
        unsafe { to.add(index).write_volatile(from.add(index).read()) };
    }
    to
}

/// # Safety
/// As C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8 {
    const WORD: usize = size_of::<u64>();
    let word = u64::from_ne_bytes([value as u8; WORD]);
    let mut index = 0;
    while index < bytes {
        // SAFETY: the caller promises `bytes` writable bytes, of which this is one, or the first
        // eight that are left; the word is aligned.
        unsafe {
            let at = to.add(index);
            if (at as usize).is_multiple_of(WORD) && bytes - index >= WORD {
                at.cast::<u64>().write_volatile(word);
                index += WORD;
            } else {
                at.write_volatile(value as u8);
                index += 1;
            }
        }
    }
    to
}

/// # Safety
/// As C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    for index in 0..bytes {
        // SAFETY: the caller promises `bytes` readable bytes on both sides.
        let (x, y) = unsafe { (a.add(index).read_volatile(), b.add(index).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
/// As `bcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(a, b, bytes) }
}
