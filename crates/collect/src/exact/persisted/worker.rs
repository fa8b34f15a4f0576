//! The thread that makes records, while the recording goes on.

use super::code_file::FileCode;
use super::image::{CodeRegion, Records, image};
use super::store::Store;
use super::{CodeNews, Message};
use numalens_event::exact::{KERNEL_CODE, PRELOADED_CODE};
use numalens_translator::Config;
use numalens_translator::persist::{CodeFile, Maker};
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// Fragments that are made before the next look at what agents say.
const PORTION: usize = 64;
/// New fragments of a file that are worth an image of their own while the recording runs.
const MANY: usize = 256;
/// What is worth being written to disk.
const WORTH: usize = 16;
/// Images of a file, which agents search one after the other.
const MOST_IMAGES: usize = 16;
/// What agents find from the beginning, of what the last recording has used: bytes.
const AT_ONCE: u64 = 16 << 20;
/// How long records are made once the recording has ended.
const LAST: Duration = Duration::from_millis(400);

/// A file of code that is executed.
#[derive(Default)]
struct Executed {
    path: PathBuf,
    /// What there is, stored or made: fragments that cannot be persisted have nothing.
    records: Records,
    /// Those of them that no image has yet.
    new: Vec<u64>,
    /// How many are not stored yet.
    unsaved: usize,
    images: usize,
    /// What is stored of it has been read.
    is_loaded: bool,
    /// Where fragments begin that are waited for.
    wanted: Vec<u64>,
    /// Its code, once it was needed; none in it: it cannot be had.
    code: Option<Option<CodeFile<FileCode>>>,
}

/// What it knows.
pub struct Worker {
    maker: Maker,
    /// Of code that is not counted.
    quiet_maker: Maker,
    /// The kernel's function that is not translated, by its offset.
    getcpu: Option<u64>,
    region: CodeRegion,
    store: Option<Store>,
    files: FxHashMap<u64, Executed>,
    /// The file of the last record.
    last: u64,
}

impl Worker {
    /// With what is stored, if anything can be.
    pub fn new(config: Config, getcpu: Option<u64>, region: CodeRegion, store: Option<Store>) -> Self {
        let (maker, quiet_maker) = (Maker::new(config), Maker::new(Config { count: false, ..config }));
        Worker { maker, quiet_maker, getcpu, region, store, files: FxHashMap::default(), last: 0 }
    }

    /// Works until the recording ends.
    pub fn work(mut self, from: &Receiver<Message>) {
        self.begin();
        let mut until: Option<Instant> = None;
        loop {
            let has_work = self.files.values().any(|file| !file.wanted.is_empty());
            let heard = match has_work || until.is_some() {
                true => from.try_recv().map_err(|error| error == TryRecvError::Disconnected),
                false => from.recv().map_err(|_| true),
            };
            match heard {
                Ok(Message::News(news)) => news.into_iter().for_each(|news| self.hear(news)),
                Ok(Message::End) => until = Some(Instant::now() + LAST),
                Err(true) if until.is_none() => until = Some(Instant::now() + LAST),
                Err(_) if until.is_some_and(|until| !has_work || Instant::now() > until) => break,
                Err(_) => self.make_some(),
            }
        }
        self.save();
    }

    /// Has agents find what the last recording has executed, in that order: the program and its loader first.
    fn begin(&mut self) {
        let Some(store) = &self.store else { return };
        let mut left = AT_ONCE;
        for key in store.recent() {
            let bytes = self.store.as_mut().and_then(|store| store.image(key)).map_or(0, |image| image.bytes);
            if bytes <= left {
                left -= bytes;
                self.load(key);
            }
        }
    }

    /// Has agents find what is stored of a file.
    fn load(&mut self, key: u64) {
        let file = self.files.entry(key).or_default();
        if std::mem::replace(&mut file.is_loaded, true) {
            return;
        }
        if let Some(stored) = self.store.as_mut().and_then(|store| store.image(key)) {
            self.region.publish_stored(key, &stored);
            file.images += 1;
        }
    }

    fn hear(&mut self, news: CodeNews) {
        match news {
            CodeNews::File(key, path) => {
                self.load(key);
                if let Some(file) = self.files.get_mut(&key) {
                    file.path = path.into();
                }
                if let Some(store) = &mut self.store {
                    store.uses(key);
                }
            }
            CodeNews::Translated(key, places) => {
                if let Some(file) = self.files.get_mut(&key) {
                    file.wanted.extend(places);
                }
            }
        }
    }

    /// Makes some of the records that are wanted.
    fn make_some(&mut self) {
        let Some((&key, file)) = self.files.iter_mut().find(|(_, file)| !file.wanted.is_empty()) else { return };
        let maker = if key == PRELOADED_CODE { &mut self.quiet_maker } else { &mut self.maker };
        if std::mem::replace(&mut self.last, key) != key {
            maker.change_file();
        }
        if file.code.is_none() {
            let code = match key {
                PRELOADED_CODE => FileCode::parse(numalens_interpose::LIBRARY),
                KERNEL_CODE => FileCode::kernel(self.getcpu),
                _ => FileCode::read(&file.path, key),
            };
            file.open(key, code, self.store.as_mut());
        }
        let portion = file.wanted.len().min(PORTION);
        let wanted: Vec<u64> = file.wanted.drain(..portion).collect();
        let Some(Some(code)) = &mut file.code else {
            file.wanted.clear();
            return;
        };
        for place in wanted {
            if file.records.contains_key(&place) {
                continue;
            }
            let Some(address) = code.code().address_of(place) else { continue };
            let record = maker.make(code, address).unwrap_or_default();
            file.records.insert(place, record);
            file.new.push(place);
            file.unsaved += 1;
        }
        let is_worth =
            file.new.len() >= MANY << file.images.min(8) || file.wanted.is_empty() && file.new.len() >= MANY / 8;
        if is_worth && file.images < MOST_IMAGES && self.region.has_room() {
            let new = std::mem::take(&mut file.new);
            let records = new.iter().filter_map(|place| Some((*place, &file.records.get(place)?[..])));
            let (image, slots_log2) = image(records);
            self.region.publish(key, &image, slots_log2);
            file.images += 1;
        }
    }

    /// Stores what is new.
    fn save(self) {
        let Some(store) = self.store else { return };
        let is_new = |file: &Executed| file.unsaved >= WORTH;
        let changed = self.files.into_iter().filter(|(_, file)| is_new(file));
        let changed = changed.map(|(key, file)| (key, file.path, file.records)).collect();
        store.save(changed, Instant::now() + LAST);
    }
}

impl Executed {
    /// Takes its code, and what is stored of it.
    fn open(&mut self, key: u64, code: Option<FileCode>, store: Option<&mut Store>) {
        self.code = Some(code.map(|code| {
            let is_fixed = code.is_fixed;
            let mut file = CodeFile::new(code, is_fixed);
            if let Some(store) = store {
                let stored = store.records(key);
                for address in stored.keys().filter_map(|&place| file.code().address_of(place)).collect::<Vec<_>>() {
                    file.add_known(address);
                }
                self.records.extend(stored);
            }
            file
        }));
    }
}
