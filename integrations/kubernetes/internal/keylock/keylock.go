// Package keylock is a set of try-locks by key: at most one operation per volume or name at a time.
package keylock

import "sync"

// Set of keys that are held. The zero value is ready.
type Set struct {
	mutex sync.Mutex
	held  map[string]struct{}
}

// TryLock takes a key and returns what gives it back; false if somebody holds it.
func (s *Set) TryLock(key string) (unlock func(), ok bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, taken := s.held[key]; taken {
		return nil, false
	}
	if s.held == nil {
		s.held = make(map[string]struct{})
	}
	s.held[key] = struct{}{}
	return func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		delete(s.held, key)
	}, true
}
