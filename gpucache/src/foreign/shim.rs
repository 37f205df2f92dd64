//! A small library in front of the driver, for programs that load the driver. This file creates the bytes of its ELF file, which is
//! opened from memory.
//!
//! Its name is `libcuda.so`, and it needs `libcuda.so.1`. If a program then asks the dynamic linker for `libcuda.so`, it gets this
//! library, because a library with that name is already open. Functions that it does not define are found in the library that it
//! needs. Each function that it defines is a jump through a table, which is filled in once the library is open.
//!
//! ```text
//!   read and execute   header · program headers · symbols · names · hash table · jumps
//!   read and write     what the dynamic linker is told · the table
//! ```

use std::ffi::CStr;

/// The name of the table.
pub(super) const TABLE: &CStr = c"gpucache_hooks";

/// At least the page size of any machine. The second half of the file begins at a multiple of it.
const PAGE: usize = 0x1_0000;
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SYMBOL: usize = 24;
const JUMP: usize = 16;

/// Offsets of the parts in the file, which are also their addresses in the library.
struct Layout {
    symbols: usize,
    names: usize,
    hash: usize,
    jumps: usize,
    end: usize,
    dynamic: usize,
    table: usize,
}

/// Appends a name to the others, and returns the offset at which it begins.
fn add(names: &mut Vec<u8>, name: &str) -> u64 {
    let place = names.len();
    names.extend(name.bytes().chain([0]));
    place as u64
}

/// The file of a library with this name that needs another library and defines functions with these names.
pub(super) fn library(soname: &str, needed: &str, functions: &[&str]) -> Vec<u8> {
    let mut names = vec![0];
    let [soname, needed, table] = [soname, needed, &TABLE.to_string_lossy()].map(|name| add(&mut names, name));
    let functions: Vec<u64> = functions.iter().map(|name| add(&mut names, name)).collect();
    let layout = Layout::of(names.len(), functions.len());
    let size = layout.table + 8 * functions.len();

    let mut file = vec![0; size];
    let mut put = |place: usize, bytes: &[u8]| file[place..place + bytes.len()].copy_from_slice(bytes);
    put(0, &header());
    put(HEADER, &layout.program_headers(size));
    put(layout.symbols, &symbols(&layout, table, &functions));
    put(layout.names, &names);
    put(layout.hash, &hash_table(functions.len() + 2));
    for number in 0..functions.len() {
        put(layout.jumps + JUMP * number, &jump(layout.jumps + JUMP * number, layout.table + 8 * number));
    }
    put(layout.dynamic, &layout.dynamic(soname, needed, names.len()));
    file
}

impl Layout {
    fn of(names: usize, functions: usize) -> Layout {
        let symbols = HEADER + 4 * PROGRAM_HEADER;
        let name_place = symbols + SYMBOL * (functions + 2);
        let hash = (name_place + names).next_multiple_of(8);
        let jumps = (hash + 4 * (2 + 1 + functions + 2)).next_multiple_of(16);
        let end = jumps + JUMP * functions;
        let dynamic = end.next_multiple_of(PAGE);
        Layout { symbols, names: name_place, hash, jumps, end, dynamic, table: dynamic + 16 * 8 }
    }

    fn program_headers(&self, size: usize) -> Vec<u8> {
        const LOAD: u32 = 1;
        const DYNAMIC: u32 = 2;
        const GNU_STACK: u32 = 0x6474_e551;
        const READ_EXECUTE: u32 = 5;
        const READ_WRITE: u32 = 6;
        let part = |kind: u32, flags: u32, place: usize, bytes: usize, align: usize| {
            let place = place as u64;
            let words = [place, place, place, bytes as u64, bytes as u64, align as u64];
            let kind = kind.to_le_bytes().into_iter().chain(flags.to_le_bytes());
            kind.chain(words.into_iter().flat_map(u64::to_le_bytes)).collect::<Vec<u8>>()
        };
        [
            part(LOAD, READ_EXECUTE, 0, self.end, PAGE),
            part(LOAD, READ_WRITE, self.dynamic, size - self.dynamic, PAGE),
            part(DYNAMIC, READ_WRITE, self.dynamic, self.table - self.dynamic, 8),
            // Without this entry the loader would make stacks executable.
            part(GNU_STACK, READ_WRITE, 0, 0, 16),
        ]
        .concat()
    }

    /// The dynamic section: pairs of a tag and a value.
    fn dynamic(&self, soname: u64, needed: u64, names: usize) -> Vec<u8> {
        const NEEDED: u64 = 1;
        const HASH: u64 = 4;
        const STRTAB: u64 = 5;
        const SYMTAB: u64 = 6;
        const STRSZ: u64 = 10;
        const SYMENT: u64 = 11;
        const SONAME: u64 = 14;
        let told = [
            (SONAME, soname),
            (NEEDED, needed),
            (HASH, self.hash as u64),
            (STRTAB, self.names as u64),
            (SYMTAB, self.symbols as u64),
            (STRSZ, names as u64),
            (SYMENT, SYMBOL as u64),
            (0, 0),
        ];
        told.into_iter().flat_map(|(what, value)| [what, value]).flat_map(u64::to_le_bytes).collect()
    }
}

fn header() -> Vec<u8> {
    const SHARED: u16 = 3;
    const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    // 64 bits, little-endian, version 1.
    let magic = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let kind = [SHARED, MACHINE].into_iter().flat_map(u16::to_le_bytes);
    let version = 1u32.to_le_bytes();
    // No entry point, program headers directly behind this header, no sections.
    let places = [0, HEADER as u64, 0].into_iter().flat_map(u64::to_le_bytes);
    let flags = 0u32.to_le_bytes();
    let sizes = [HEADER as u16, PROGRAM_HEADER as u16, 4, 0, 0, 0].into_iter().flat_map(u16::to_le_bytes);
    magic.into_iter().chain(kind).chain(version).chain(places).chain(flags).chain(sizes).collect()
}

/// The empty symbol that comes first in every symbol table, the table of hooks, and the functions.
fn symbols(layout: &Layout, table: u64, functions: &[u64]) -> Vec<u8> {
    const GLOBAL_OBJECT: u8 = 0x11;
    const GLOBAL_FUNCTION: u8 = 0x12;
    let symbol = |name: u64, kind: u8, place: usize, bytes: usize| {
        // Any section number will do, except 0, which means undefined.
        let (name, section) = ((name as u32).to_le_bytes(), 1u16.to_le_bytes());
        let place = [place as u64, bytes as u64].into_iter().flat_map(u64::to_le_bytes);
        name.into_iter().chain([kind, 0]).chain(section).chain(place).collect::<Vec<u8>>()
    };
    let mut all = vec![0; SYMBOL];
    all.extend(symbol(table, GLOBAL_OBJECT, layout.table, 8 * functions.len()));
    for (number, name) in functions.iter().enumerate() {
        all.extend(symbol(*name, GLOBAL_FUNCTION, layout.jumps + JUMP * number, JUMP));
    }
    all
}

/// A hash table with one bucket and all symbols in one chain, because there are few.
fn hash_table(symbols: usize) -> Vec<u8> {
    let chain = (0..symbols as u32).map(|number| match number {
        0 => 0,
        last if last + 1 == symbols as u32 => 0,
        other => other + 1,
    });
    [1, symbols as u32, 1].into_iter().chain(chain).flat_map(u32::to_le_bytes).collect()
}

/// The code at an address that jumps to the address in a place of the table.
#[cfg(target_arch = "x86_64")]
fn jump(here: usize, place: usize) -> Vec<u8> {
    // endbr64; jmp [rip + distance], where the distance counts from the end of the jump.
    let distance = (place - (here + 10)) as u32;
    [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25].into_iter().chain(distance.to_le_bytes()).collect()
}

/// The code at an address that jumps to the address in a place of the table.
#[cfg(target_arch = "aarch64")]
fn jump(here: usize, place: usize) -> Vec<u8> {
    // bti c; adrp x16, page of the place; ldr x16, [x16, offset in the page]; br x16.
    let pages = ((place >> 12) - (here >> 12)) as u32;
    let adrp = 0x9000_0010 | (pages & 3) << 29 | (pages >> 2) << 5;
    let load = 0xf940_0210 | ((place as u32 % 4096) / 8) << 10;
    [0xd503_245f, adrp, load, 0xd61f_0200].into_iter().flat_map(u32::to_le_bytes).collect()
}
