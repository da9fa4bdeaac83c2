use super::*;

const ONE: VolumeId = VolumeId(1);
const SPACE: RodTokenSpace = RodTokenSpace { volume: VolumeId(9), size_bytes: 1 << 20 };

fn tokens() -> RodTokens {
    let mut tokens = RodTokens::default();
    tokens.set_key([7; 32]);
    tokens.set_space(ONE, SPACE);
    tokens
}

fn spec() -> RodTokenSpec {
    spec_of("host")
}

fn spec_of(host: &str) -> RodTokenSpec {
    RodTokenSpec {
        host: host.to_owned(),
        creator: ONE,
        naa: [6; 16],
        block_bytes: 512,
        timeout: Duration::from_secs(10),
        target_device: vec![9; 352],
    }
}

#[test]
fn every_changed_bit_of_a_token_is_noticed() {
    let mut tokens = tokens();
    let (number, ..) = tokens.reserve(&spec(), &[ByteRange::new(0, 512)]).unwrap();
    tokens.activate(number);
    let right = tokens.valid(number).unwrap().bytes.clone();
    assert_eq!(tokens.find(&right).unwrap(), number);
    for bit in 0..TOKEN_BYTES * 8 {
        let mut wrong = right.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        let sense = tokens.find(&wrong).unwrap_err().sense.unwrap();
        assert_eq!(sense.code.asc, 0x23, "{bit}");
    }
    let mut other = self::tokens();
    other.set_key([8; 32]);
    let (number, ..) = other.reserve(&spec(), &[ByteRange::new(0, 512)]).unwrap();
    other.activate(number);
    assert!(other.find(&right).is_err(), "a token of another life");
}

#[test]
fn parts_lie_as_in_their_source_and_never_overlap() {
    let mut tokens = tokens();
    let ranges = [ByteRange::new(512, 512), ByteRange::new(9216, 8192), ByteRange::new(4096, 0)];
    let mut taken: Vec<ByteRange> = Vec::new();
    for _ in 0..5 {
        let (number, space, places) = tokens.reserve(&spec(), &ranges).unwrap();
        assert_eq!(space, SPACE.volume);
        for (place, range) in places.iter().zip(ranges) {
            assert_eq!(place % BLOCK, range.offset % BLOCK);
            let part = ByteRange::new(*place, range.length);
            assert!(taken.iter().all(|other| !other.overlaps(part)));
            taken.push(part);
        }
        tokens.activate(number);
    }
}

#[test]
fn room_comes_back_when_a_token_has_ended_and_been_unmapped() {
    let mut tokens = tokens();
    let whole = [ByteRange::new(0, SPACE.size_bytes)];
    let (number, ..) = tokens.reserve(&spec(), &whole).unwrap();
    assert!(tokens.reserve(&spec(), &[ByteRange::new(0, 512)]).is_err());
    tokens.activate(number);
    assert!(tokens.tick(Duration::from_secs(10)).is_empty());
    tokens.begin(RodTokenUse::Reads(number));
    assert!(tokens.tick(Duration::from_secs(30)).is_empty(), "it is being read");
    tokens.finish(RodTokenUse::Reads(number), true);
    assert!(tokens.tick(Duration::from_secs(40)).is_empty());
    let parts = tokens.tick(Duration::from_secs(41));
    assert_eq!(parts, [(number, SPACE.volume, whole[0])]);
    assert!(tokens.tick(Duration::from_secs(42)).is_empty(), "it goes once");
    assert!(tokens.reserve(&spec(), &whole).is_err());
    assert!(tokens.next_part(number).is_none());
    assert!(tokens.reserve(&spec(), &whole).is_ok());
}

#[test]
fn a_host_has_a_quota_of_tokens_and_all_together_have_one() {
    const SPACE: RodTokenSpace = RodTokenSpace { volume: VolumeId(9), size_bytes: 1 << 30 };
    let mut tokens = RodTokens::default();
    tokens.set_key([7; 32]);
    tokens.set_space(ONE, SPACE);
    let mut reserve = |host: &str| {
        let reserved = tokens.reserve(&spec_of(host), &[ByteRange::new(0, 512)]);
        reserved.map_err(|completion| completion.sense.map(|sense| sense.code))
    };
    let refused = Some(sense::INSUFFICIENT_RESOURCES_TO_CREATE_ROD_TOKEN);
    for host in 0..TOKENS_MAX / TOKENS_PER_HOST_MAX {
        for _ in 0..TOKENS_PER_HOST_MAX {
            reserve(&format!("host {host}")).unwrap();
        }
        assert_eq!(reserve(&format!("host {host}")).err(), Some(refused));
    }
    assert_eq!(reserve("one more").err(), Some(refused));
}
