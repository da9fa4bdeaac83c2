package array

// Volume is a volume as GET /v1/volumes/{pool}/{volume} shows it.
type Volume struct {
	Pool string `json:"pool"`
	Name string `json:"name"`
	// NAA is 'naa.' and 32 hexadecimal digits. It never changes and is never reused.
	NAA string `json:"naa"`
	// SizeBytes is what hosts see, a multiple of 4,096.
	SizeBytes int64 `json:"size_bytes"`
	Thick     bool  `json:"thick"`
	// BlockSize is 512, 512e or 4096.
	BlockSize string `json:"block_size"`
	// MappedBytes hold data, some perhaps shared.
	MappedBytes int64 `json:"mapped_bytes"`
	// Snapshot is true for a snapshot, which is shown as a volume too.
	Snapshot bool `json:"snapshot"`
	// Origin is what it was cloned from, as POOL/NAME, while that exists.
	Origin *string `json:"origin"`
	// Snapshots is how many there are of it.
	Snapshots  int               `json:"snapshots"`
	Thresholds Thresholds        `json:"thresholds"`
	Limits     Limits            `json:"limits"`
	Fill       string            `json:"fill"`
	Maps       []Map             `json:"maps"`
	Tags       map[string]string `json:"tags"`
}

// Ref names a volume or snapshot by its pool and its name there.
type Ref struct {
	Pool string
	Name string
}

// Ref is the volume's name.
func (v *Volume) Ref() Ref { return Ref{Pool: v.Pool, Name: v.Name} }

// String is POOL/NAME.
func (r Ref) String() string { return r.Pool + "/" + r.Name }

// MapOf is how a host sees the volume; false if it does not.
func (v *Volume) MapOf(host string) (Map, bool) {
	for _, candidate := range v.Maps {
		if candidate.Host == host {
			return candidate, true
		}
	}
	return Map{}, false
}

// Map says who sees a volume, and by which number.
type Map struct {
	// Host is a host, a group, or 'any'.
	Host string `json:"host"`
	// LUN is 0 to 16,383.
	LUN      int  `json:"lun"`
	ReadOnly bool `json:"read_only"`
}

// Thresholds are percentages, 1 to 100, the soft one not above the hard one.
type Thresholds struct {
	SoftPercent int `json:"soft_percent"`
	HardPercent int `json:"hard_percent"`
}

// Limits are the most that gets done on a volume or for a host (QoS); 0 for no limit.
type Limits struct {
	// IOPS is I/Os per second, from 10 to 10,000,000.
	IOPS int64 `json:"iops"`
	// BytesPerSecond is from 1 MiB to 1 TiB.
	BytesPerSecond int64 `json:"bytes_per_second"`
	// BurstMilliseconds is for how much time unused work is saved up, 10 to 600,000.
	BurstMilliseconds int64 `json:"burst_ms"`
}

// HostLimits are what PATCH /v1/hosts/{host}/limits takes.
type HostLimits struct {
	Limits
	// Share is 1 to 100.
	Share int64 `json:"share"`
}

// NewVolume is what POST /v1/volumes takes.
type NewVolume struct {
	Pool string `json:"pool"`
	Name string `json:"name"`
	// SizeBytes is a multiple of 4,096, at most 64 TiB.
	SizeBytes int64 `json:"size_bytes"`
	Thick     bool  `json:"thick"`
	// BlockSize is 512, 512e or 4096; empty for what the array takes.
	BlockSize string `json:"block_size,omitempty"`
	// Tags are at most 16.
	Tags map[string]string `json:"tags,omitempty"`
}

// NewClone is what POST /v1/volumes/{pool}/{volume}/clones takes.
type NewClone struct {
	Name  string            `json:"name"`
	Thick bool              `json:"thick"`
	Tags  map[string]string `json:"tags,omitempty"`
}

// Snapshot is a snapshot as GET /v1/snapshots/{pool}/{snapshot} shows it.
type Snapshot struct {
	Pool string `json:"pool"`
	Name string `json:"name"`
	NAA  string `json:"naa"`
	// Volume is the name of its source in the pool, while that exists.
	Volume *string `json:"volume"`
	// Created is in seconds since 1970.
	Created   int64             `json:"created"`
	SizeBytes int64             `json:"size_bytes"`
	Tags      map[string]string `json:"tags"`
}

// Ref is the snapshot's name.
func (s *Snapshot) Ref() Ref { return Ref{Pool: s.Pool, Name: s.Name} }

// NewSnapshot is one of several that are made at one moment.
type NewSnapshot struct {
	Volume string            `json:"volume"`
	Name   string            `json:"name"`
	Tags   map[string]string `json:"tags,omitempty"`
}

// Host is a host as GET /v1/hosts/{host} shows it.
type Host struct {
	Name       string   `json:"name"`
	Initiators []string `json:"initiators"`
	ChapUser   *string  `json:"chap_user"`
	// MutualChap says whether the target proves itself, too.
	MutualChap bool   `json:"mutual_chap"`
	Limits     Limits `json:"limits"`
	// Share is what it gets of a pool for which others wait, 1 to 100.
	Share int64             `json:"share"`
	Tags  map[string]string `json:"tags"`
}

// NewHost is what POST /v1/hosts takes.
type NewHost struct {
	Name       string   `json:"name"`
	Initiators []string `json:"initiators"`
	Chap       *Chap    `json:"chap,omitempty"`
}

// HostChange says what of a host becomes something else; what is nil stays.
type HostChange struct {
	Initiators []string `json:"initiators,omitempty"`
	Chap       *Chap    `json:"chap,omitempty"`
	// NoChap takes the account away.
	NoChap bool `json:"no_chap,omitempty"`
}

// Group is several hosts that see the same volumes.
type Group struct {
	Name  string            `json:"name"`
	Hosts []string          `json:"hosts"`
	Tags  map[string]string `json:"tags"`
}

// Chap is a CHAP account (RFC 7143 12.1.3). It has no String method that shows the secret.
type Chap struct {
	User   string `json:"user"`
	Secret string `json:"secret"`
	// MutualUser and MutualSecret prove the target to the initiator; both or none.
	MutualUser   string `json:"mutual_user,omitempty"`
	MutualSecret string `json:"mutual_secret,omitempty"`
}

// String leaves the secret out.
func (c Chap) String() string { return c.User + ":***" }

// GoString leaves the secret out.
func (c Chap) GoString() string { return c.String() }

// Pool is a pool as GET /v1/pools shows it.
type Pool struct {
	Name string `json:"name"`
	// State is ready, read-only, opening or unavailable.
	State  string  `json:"state"`
	Reason *string `json:"reason"`
	Fill   string  `json:"fill"`
	// SizeBytes is that of all its devices.
	SizeBytes int64             `json:"size_bytes"`
	UUID      string            `json:"uuid"`
	Tags      map[string]string `json:"tags"`
	Space     *Space            `json:"space"`
	Mirrors   []struct {
		Degraded bool `json:"degraded"`
	} `json:"mirrors"`
	JournalLoss *struct {
		Commits uint64 `json:"commits"`
	} `json:"journal_loss"`
}

// IsOpen says whether the pool's volumes are known.
func (p *Pool) IsOpen() bool { return p.State == "ready" || p.State == "read-only" }

// Space is where a pool's space went, in bytes.
type Space struct {
	FreeBytes     int64 `json:"free_bytes"`
	PromisedBytes int64 `json:"promised_bytes"`
}

// Portal is an address of the target.
type Portal struct {
	// Address is IP:PORT, an IPv6 address in brackets.
	Address string `json:"address"`
	// Redirect is where initiators are sent instead, if they are.
	Redirect *string `json:"redirect"`
}
