//! A small perf.data, built as the kernel and perf lay it out (tools/perf/Documentation/perf.data-file-format.txt).

/// `PERF_SAMPLE_IP | TID | TIME | ADDR | CALLCHAIN | CPU | PERIOD | WEIGHT | DATA_SRC | PHYS_ADDR`.
const FORMAT: u64 = 1 | 2 | 4 | 8 | 32 | 128 | 256 | 1 << 14 | 1 << 15 | 1 << 19;
const USER: u16 = 2;

/// What a sample says.
#[derive(Clone, Copy)]
pub struct Sampled {
    pub time: u64,
    pub tid: u32,
    pub cpu: u32,
    pub ip: u64,
    pub caller: u64,
    pub address: u64,
    pub physical: u64,
    pub data_source: u64,
}

/// Loads and stores, answered by memory of the CPU's own or of another node: `mem_op` and `mem_lvl` with HIT.
pub const LOCAL_LOAD: u64 = 2 | (0x02 | 0x80) << 5;
pub const REMOTE_LOAD: u64 = 2 | (0x02 | 0x100) << 5;
pub const REMOTE_STORE: u64 = 4 | (0x02 | 0x100) << 5;
pub const CACHED_LOAD: u64 = 2 | (0x02 | 0x08) << 5;

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut record = kind.to_le_bytes().to_vec();
    record.extend(misc.to_le_bytes());
    record.extend((body.len() as u16 + 8).to_le_bytes());
    record.extend(body);
    record
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(halves: &[u32]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

fn padded(text: &str, to: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() + 1).div_ceil(to) * to, 0);
    bytes
}

/// As `perf` writes strings into its sections: length, text, zeros.
fn string(text: &str) -> Vec<u8> {
    let text = padded(text, 64);
    [halves(&[text.len() as u32]), text].concat()
}

fn sample(sampled: &Sampled) -> Vec<u8> {
    let Sampled { time, tid, cpu, ip, caller, address, physical, data_source } = *sampled;
    // The chain begins with a mark of the context and the instruction itself.
    let chain = if caller > 0 { vec![(-512i64) as u64, ip, caller] } else { vec![] };
    let body = [
        words(&[ip]),
        halves(&[77, tid]),
        words(&[time, address]),
        halves(&[cpu, 0]),
        words(&[1000, chain.len() as u64]),
        words(&chain),
        words(&[250, data_source, physical]),
    ];
    record(9, USER, &body.concat())
}

/// Forty remote loads.
pub fn forty() -> Vec<Sampled> {
    let sample = |n: u64| Sampled {
        time: n,
        tid: 77 + n as u32 % 3,
        cpu: n as u32 % 4,
        ip: 0x40_0000 + n,
        caller: 0x40_0100,
        address: 0x7f00_0000 + n * 512,
        physical: n << 20,
        data_source: REMOTE_LOAD,
    };
    (0..40).map(sample).collect()
}

/// What a file consists of.
struct Parts {
    attribute: Vec<u8>,
    data: Vec<u8>,
    /// In the order of their bits.
    features: [(u32, Vec<u8>); 4],
}

/// Two nodes with two CPUs each; memory blocks of 16 MiB, of which 0 and 1 are node 0's and 2 and 3 node 1's. One
/// process, pid 77, its program mapped at 0x400000 from offset 0x1000.
fn parts(samples: &[Sampled]) -> Parts {
    let map = [
        halves(&[77, 77]),
        words(&[0x40_0000, 0x2000, 0x1000]),
        halves(&[0, 0]),
        words(&[0, 0]),
        halves(&[5, 2]),
        padded("/home/me/app", 8),
    ];
    let comm = [halves(&[77, 77]), padded("app", 8)];
    let mut data = record(3, 0, &comm.concat());
    data.extend(record(10, USER, &map.concat()));
    data.extend(records(samples));
    let numa = [
        halves(&[2, 0]),
        words(&[1 << 20, 1 << 19]),
        string("0-1"),
        halves(&[1]),
        words(&[1 << 20, 1 << 19]),
        string("2-3"),
    ];
    let memory = [words(&[1, 16 << 20, 2]), words(&[0, 2, 4, 0b0011]), words(&[1, 2, 4, 0b1100])];
    // Host name, command line, nodes, memory blocks.
    let features: [(u32, Vec<u8>); 4] = [
        (3, string("there")),
        (11, [halves(&[2]), string("perf"), string("record")].concat()),
        (14, numa.concat()),
        (22, memory.concat()),
    ];
    // A hardware event; sizes of the attribute as of Linux 6.
    let mut attribute = [halves(&[4, 136]), words(&[0x1cd, 1000, FORMAT, 0, 0])].concat();
    attribute.resize(136, 0);
    Parts { attribute, data, features }
}

/// Records of samples, as a file of a folder has them.
pub fn records(samples: &[Sampled]) -> Vec<u8> {
    samples.iter().flat_map(sample).collect()
}

/// A file.
pub fn file(samples: &[Sampled]) -> Vec<u8> {
    let Parts { attribute, data, features } = parts(samples);
    let ids = words(&[0, 0]);
    let (attributes_at, head) = (104u64, 104 + 152);
    let mut file = b"PERFILE2".to_vec();
    file.extend(words(&[104, 152, attributes_at, 152, head, data.len() as u64, 0, 0]));
    file.extend(words(&[features.iter().map(|(bit, _)| 1u64 << bit).sum(), 0, 0, 0]));
    file.extend(attribute);
    file.extend(ids);
    file.extend(&data);
    let mut at = file.len() as u64 + 16 * features.len() as u64;
    for (_, section) in &features {
        file.extend(words(&[at, section.len() as u64]));
        at += section.len() as u64;
    }
    features.iter().for_each(|(_, section)| file.extend(section));
    file
}

/// The same as `perf record -o -` writes it, with a record that has bytes behind it.
pub fn pipe(samples: &[Sampled]) -> Vec<u8> {
    let Parts { attribute, data, features } = parts(samples);
    let mut pipe = b"PERFILE2".to_vec();
    pipe.extend(words(&[16]));
    pipe.extend(record(64, 0, &[attribute, words(&[5])].concat()));
    for (number, section) in features {
        pipe.extend(record(80, 0, &[words(&[number.into()]), section].concat()));
    }
    pipe.extend(record(66, 0, &halves(&[12])));
    pipe.extend([0xff; 16]);
    pipe.extend(data);
    pipe
}
