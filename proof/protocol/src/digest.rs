//! A state in 64 bits, to tell it from others.

use crate::ring::{Entry, Seen};
use crate::state::{Bucket, Look, Slot, Split, State, Taken, Thread};
use crate::values::{Header, Name, Word};

/// The state's hash. What a thread does is not in it: that follows from how many operations it has
/// begun.
pub(crate) fn digest(state: &State) -> u64 {
    let mut mixer = Mixer(0x9e37_79b9_7f4a_7c15);
    state.buckets.iter().for_each(|bucket| mixer.bucket(bucket));
    let mut rings = Pack::default();
    state.rings.iter().flatten().for_each(|&entry| {
        rings.entry(entry);
    });
    mixer.add(rings.0);
    state.threads.iter().for_each(|thread| mixer.thread(thread));
    for counts in state.admitted.chunks(2) {
        let bytes = counts.iter().flatten().fold(0, |bytes, &count| bytes << 8 | u64::from(count));
        mixer.add(bytes);
    }
    let mut rest = Pack::default();
    rest.put(8, state.hint).put(8, state.clock).put(8, state.mark);
    for &forgiven in &state.forgiven {
        rest.flag(forgiven);
    }
    mixer.add(rest.0);
    (mixer.0 ^ mixer.0 >> 29).wrapping_mul(0x9fb2_1c65_1e98_df25)
}

/// Fields one above the other, as long as they fit.
#[derive(Default)]
struct Pack(u64, u32);

impl Pack {
    fn put(&mut self, width: u32, value: impl Into<u64>) -> &mut Self {
        let value = value.into();
        debug_assert!(value >> width == 0 && self.1 + width <= 64, "{value} must fit {width} bits");
        self.0 |= value << self.1;
        self.1 += width;
        self
    }

    fn flag(&mut self, flag: bool) -> &mut Self {
        self.put(1, flag)
    }

    fn word(&mut self, word: Word) -> &mut Self {
        self.flag(word.frozen).flag(word.parity).put(8, word.payload)
    }

    fn entry(&mut self, entry: Entry) -> &mut Self {
        self.flag(entry.lap).flag(entry.live).put(6, entry.when)
    }

    fn name(&mut self, name: Name) -> &mut Self {
        let kind: u8 = match name {
            Name::Untouched => 0,
            Name::Vacant => 1,
            Name::Owed => 2,
            Name::Key(_) => 3,
            Name::Moved(_) => 4,
            Name::Emptied => 5,
        };
        self.put(3, kind).put(3, name.key().unwrap_or(0))
    }

    fn slot(&mut self, slot: Slot) -> &mut Self {
        self.word(slot.word).name(slot.name)
    }

    fn header(&mut self, header: Header) -> &mut Self {
        self.put(23, header.bits())
    }

    fn overflow(&mut self, overflow: u8) -> &mut Self {
        self.put(8, overflow)
    }
}

/// Multiplies and folds.
struct Mixer(u64);

impl Mixer {
    fn add(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value).wrapping_mul(0xd6e8_feb8_6659_fd93_a5a3_564e_27f8_8665);
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ self.0.rotate_left(23);
    }

    fn bucket(&mut self, bucket: &Bucket) {
        self.add(Pack::default().header(bucket.header).overflow(bucket.overflow).0);
        let mut slots = Pack::default();
        for &slot in &bucket.slots {
            slots.slot(slot);
        }
        self.add(slots.0);
    }

    fn thread(&mut self, thread: &Thread) {
        let mut place = Pack::default();
        place
            .put(7, thread.pc as u8)
            .put(8, thread.begun)
            .put(2, thread.now)
            .put(2, thread.shares)
            .put(2, thread.handovers);
        place
            .put(2, thread.view)
            .put(2, thread.at)
            .put(2, thread.child)
            .put(2, thread.place)
            .put(2, thread.chosen);
        place.flag(thread.quickly).flag(thread.short).flag(thread.untried);
        place.flag(thread.owed).flag(thread.shared).flag(thread.paid).flag(thread.just);
        place.flag(thread.taken.is_some()).header(thread.header);
        self.add(place.0);
        let mut seen = Pack::default();
        seen.overflow(thread.overflow).word(thread.seen).word(thread.new);
        for other in thread.others {
            seen.flag(other.is_some()).slot(other.unwrap_or_default());
        }
        self.add(seen.0);
        let Look { decided, now, unit, seen: Seen { entry, proposed }, refused, inserts } = thread.log;
        let mut log = Pack::default();
        log.put(8, decided).put(8, now).put(2, unit).entry(entry).flag(proposed).flag(refused).flag(inserts);
        self.add(log.0);
        if let Some(Taken { charged, since, at, kept, marked, mine, decided }) = thread.taken {
            let mut taken = Pack::default();
            taken.put(8, charged).put(2, since).put(2, at).flag(kept).flag(marked).flag(mine);
            taken.put(8, decided);
            self.add(taken.0);
        }
        let Split { bucket, level, header, debt, place, word, name, moved, then } = thread.split;
        let mut split = Pack::default();
        split.put(2, bucket).put(2, level).put(2, place).header(header).put(8, debt).put(7, then as u8);
        self.add(split.0);
        let mut leaving = Pack::default();
        let (key, moving) = moved.unwrap_or_default();
        leaving.word(word).name(name).flag(moved.is_some()).put(3, key).word(moving);
        self.add(leaving.0);
    }
}
