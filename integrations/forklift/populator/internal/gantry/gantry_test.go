package gantry

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/populator"
)

const (
	testNAA = "naa.6001405aa00000000000000000000001"
	esxIQN  = "iqn.1998-01.com.vmware:esx1"
)

// script answers requests in a row, and fails the test for one that does not come as it says.
type script struct {
	t     *testing.T
	steps []step
	next  int
}

type step struct {
	// request is the method and the path with its query, behind /v1.
	request string
	// sent is what the body holds; not looked at when it is empty.
	sent   string
	status int
	answer string
}

func (s *script) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	if request.Header.Get("Authorization") != "Bearer secret" {
		s.t.Errorf("%s %s: the token is missing", request.Method, request.URL)
	}
	if s.next >= len(s.steps) {
		s.t.Errorf("nobody expected %s %s", request.Method, request.URL)
		writer.WriteHeader(http.StatusTeapot)
		return
	}
	now := s.steps[s.next]
	s.next++
	if asked := request.Method + " " + strings.TrimPrefix(request.URL.RequestURI(), "/v1"); asked != now.request {
		s.t.Errorf("expected %s, got %s", now.request, asked)
	}
	var body any
	if err := json.NewDecoder(request.Body).Decode(&body); err == nil {
		if text, _ := json.Marshal(body); now.sent != "" && string(text) != now.sent {
			s.t.Errorf("%s: expected %s, got %s", now.request, now.sent, text)
		}
	}
	if now.status == 0 {
		now.status = http.StatusOK
	}
	writer.Header().Set("ETag", `"7"`)
	writer.WriteHeader(now.status)
	writer.Write([]byte(now.answer))
}

// clonner is a provider whose array follows a script.
func clonner(t *testing.T, steps ...step) *GantryClonner {
	t.Helper()
	steps = append([]step{
		{request: "GET /me", answer: `{"role":"operator"}`},
		{request: "GET /openapi.json", answer: `{"info":{"version":"1.2.3"}}`},
	}, steps...)
	played := &script{t: t, steps: steps}
	server := httptest.NewServer(played)
	t.Cleanup(func() {
		server.Close()
		if played.next != len(steps) {
			t.Errorf("%d of %d requests came", played.next, len(steps))
		}
	})
	made, err := NewGantryClonner(server.URL, Credentials{Token: "secret\n"})
	if err != nil {
		t.Fatal(err)
	}
	return &made
}

func volumeText(maps, tags string) string {
	return `{"pool":"p","name":"v","naa":"` + testNAA + `","snapshot":false,"maps":[` + maps + `],"tags":{` + tags + `}}`
}

func refusal(kind string) string {
	return `{"type":"urn:gantry:problem:` + kind + `","detail":"no"}`
}

var (
	testLUN     = populator.LUN{Name: "p/v", NAA: testNAA}
	testContext = populator.MappingContext{contextGroup: "xcopy-esx1", contextHost: "esx1", contextSeers: []string{"esx1", anyHost, "cluster"}}
)

const findVolume = "GET /volumes?naa=" + testNAA

func TestTheVersionIsInTheInfo(t *testing.T) {
	info := clonner(t).GetStorageArrayInfo()
	if info.Vendor != "Gantry" || info.Version != "1.2.3" {
		t.Errorf("%+v", info)
	}
}

func TestAKnownInitiatorKeepsItsHost(t *testing.T) {
	c := clonner(t,
		step{request: "GET /hosts?initiators=" + strings.ReplaceAll(esxIQN, ":", "%3A"), answer: `[{"name":"esx1"}]`},
		step{request: "GET /groups?hosts=esx1", answer: `[{"name":"cluster","hosts":["esx1"]}]`})
	mapping, err := c.EnsureClonnerIgroup("xcopy-host-1", []string{"fc.2000:2100", esxIQN, esxIQN})
	if err != nil || mapping[contextHost] != "esx1" {
		t.Fatal(mapping, err)
	}
	if seers := mapping[contextSeers].([]string); !slices.Equal(seers, []string{"esx1", "any", "cluster"}) {
		t.Error(seers)
	}
}

func TestAnUnknownInitiatorGetsAHostAndARaceIsNoError(t *testing.T) {
	find := step{request: "GET /hosts?initiators=" + strings.ReplaceAll(esxIQN, ":", "%3A"), answer: `[]`}
	create := step{request: "POST /hosts", sent: `{"initiators":["` + esxIQN + `"],"name":"xcopy-host-1"}`}
	lost := create
	lost.status, lost.answer = http.StatusConflict, refusal("initiator-taken")
	c := clonner(t, find, lost, find, create, step{request: "GET /groups?hosts=xcopy-host-1", answer: `[]`})
	create.answer = `{}`
	if mapping, err := c.EnsureClonnerIgroup("xcopy-host-1", []string{esxIQN}); err != nil || mapping[contextHost] != "xcopy-host-1" {
		t.Fatal(mapping, err)
	}
}

func TestFibreChannelAloneIsRefused(t *testing.T) {
	if _, err := clonner(t).EnsureClonnerIgroup("g", []string{"fc.2000:2100"}); err == nil || !strings.Contains(err.Error(), "iSCSI") {
		t.Error(err)
	}
}

func TestNamesOfGroupsBecomeNamesOfHosts(t *testing.T) {
	if name := hostName("xcopy-hostsystem-host-10"); name != "xcopy-hostsystem-host-10" {
		t.Error(name)
	}
	long := "xcopy-hostsystem-host-10 @ /a datacenter/host/a cluster with a long name/esx10.example.org"
	name := hostName(long)
	if len(name) > hostNameMax || strings.ContainsAny(name, " /@") || name == hostName(long+"x") {
		t.Error(name)
	}
}

func TestAVolumeIsFoundByItsHandle(t *testing.T) {
	c := clonner(t, step{request: findVolume, answer: "[" + volumeText("", "") + "]"},
		step{request: "GET /target", answer: `{"name":"iqn.array"}`})
	lun, err := c.ResolvePVToLUN(populator.PersistentVolume{Name: "pv", VolumeHandle: testNAA})
	if err != nil || lun.NAA != testNAA || lun.Name != "p/v" || lun.IQN != "iqn.array" || lun.VolumeHandle != testNAA {
		t.Error(lun, err)
	}
}

func TestHandlesOfOthersMissingVolumesAndSnapshotsAreRefused(t *testing.T) {
	for _, handle := range []string{"", "naa.5", "csi-1234", testNAA + "0", "naa." + strings.Repeat("A", 32)} {
		if _, err := clonner(t).ResolvePVToLUN(populator.PersistentVolume{VolumeHandle: handle}); err == nil || !strings.Contains(err.Error(), "another CSI driver") {
			t.Error(handle, err)
		}
	}
	missing := clonner(t, step{request: findVolume, answer: `[]`},
		step{request: "GET /pools", answer: `[{"name":"p","state":"unavailable"},{"name":"q","state":"ready"}]`})
	if _, err := missing.ResolvePVToLUN(populator.PersistentVolume{VolumeHandle: testNAA}); err == nil || !strings.Contains(err.Error(), "p (unavailable)") {
		t.Error(err)
	}
	snapshot := clonner(t, step{request: findVolume, answer: `[{"pool":"p","name":"s","snapshot":true}]`})
	if _, err := snapshot.ResolvePVToLUN(populator.PersistentVolume{VolumeHandle: testNAA}); err == nil {
		t.Error("a snapshot is no target")
	}
}

func TestMappingSetsTheTagFirstAndUnmappingRemovesItLast(t *testing.T) {
	plain, tagged := volumeText(`{"host":"node1"}`, `"a":"b"`), volumeText(`{"host":"node1"},{"host":"esx1"}`, `"a":"b","forklift-xcopy":"esx1"`)
	c := clonner(t,
		step{request: findVolume, answer: "[" + plain + "]"},
		step{request: findVolume, answer: "[" + plain + "]"},
		step{request: "GET /volumes/p/v", answer: plain},
		step{request: "PUT /volumes/p/v/tags", sent: `{"tags":{"a":"b","forklift-xcopy":"esx1"}}`, status: 412, answer: refusal("changed")},
		step{request: "GET /volumes/p/v", answer: plain},
		step{request: "PUT /volumes/p/v/tags", sent: `{"tags":{"a":"b","forklift-xcopy":"esx1"}}`, answer: `{}`},
		step{request: "PUT /volumes/p/v/maps/esx1", sent: `{"read_only":false}`, answer: `{}`},
		step{request: findVolume, answer: "[" + tagged + "]"},
		step{request: findVolume, answer: "[" + tagged + "]"},
		step{request: "DELETE /volumes/p/v/maps/esx1", answer: `{}`},
		step{request: "GET /volumes/p/v", answer: tagged},
		step{request: "PUT /volumes/p/v/tags", sent: `{"tags":{"a":"b"}}`, answer: `{}`})
	if _, err := c.MapTarget(testLUN, testContext); err != nil {
		t.Fatal(err)
	}
	if groups, err := c.CurrentMappedGroups(testLUN, testContext); err != nil || !slices.Equal(groups, []string{"node1"}) {
		t.Error(groups, err)
	}
	if err := c.UnMap("xcopy-esx1", testLUN, testContext); err != nil {
		t.Fatal(err)
	}
}

func TestWhatAnAdministratorMappedStays(t *testing.T) {
	for _, host := range []string{"esx1", "any", "cluster"} {
		mapped := "[" + volumeText(`{"host":"`+host+`"}`, "") + "]"
		c := clonner(t, step{request: findVolume, answer: mapped}, step{request: findVolume, answer: mapped},
			step{request: findVolume, answer: mapped}, step{request: findVolume, answer: mapped})
		if _, err := c.MapTarget(testLUN, testContext); err != nil {
			t.Error(err)
		}
		if groups, err := c.CurrentMappedGroups(testLUN, testContext); err != nil || !slices.Equal(groups, []string{host}) {
			t.Error(groups, err)
		}
		if err := c.UnmapTarget(testLUN, testContext); err != nil {
			t.Error(err)
		}
	}
}

func TestAVolumeThatIsGoneIsUnmapped(t *testing.T) {
	gone := step{request: findVolume, answer: `[]`}
	c := clonner(t, gone, gone, gone)
	if err := c.UnmapTarget(testLUN, testContext); err != nil {
		t.Error(err)
	}
	if err := c.UnMap("node1", testLUN, testContext); err != nil {
		t.Error(err)
	}
	if _, err := c.MapTarget(testLUN, testContext); err == nil {
		t.Error("nothing can be mapped")
	}
}

func TestWithoutAContextNothingIsChanged(t *testing.T) {
	c := clonner(t)
	if _, err := c.MapTarget(testLUN, nil); err == nil {
		t.Error("whose host?")
	}
	if err := c.UnmapTarget(testLUN, populator.MappingContext{}); err == nil {
		t.Error("whose host?")
	}
}

func TestABusyArrayIsAskedAgain(t *testing.T) {
	c := clonner(t, step{request: findVolume, status: 503, answer: refusal("busy")},
		step{request: findVolume, answer: `[]`})
	if err := c.UnMap("node1", testLUN, testContext); err != nil {
		t.Error(err)
	}
}

func TestAddressesAndCredentials(t *testing.T) {
	for address, expected := range map[string]string{
		"array": "https://array:8443", "array:1": "https://array:1", "https://array/": "https://array:8443",
		"http://127.0.0.1:8480": "http://127.0.0.1:8480", "[2001:db8::1]": "https://[2001:db8::1]:8443",
	} {
		if base, err := baseURL(address); err != nil || base.String() != expected {
			t.Error(address, base, err)
		}
	}
	for _, address := range []string{"", "http://array:8480", "ftp://array", "https://", "a b"} {
		if base, err := baseURL(address); err == nil {
			t.Error(address, base)
		}
	}
	for _, credentials := range []Credentials{{}, {Username: "u"}, {Token: "a b"}, {Token: "t", CACertificate: "none"}} {
		if _, err := newClient("array", credentials); err == nil {
			t.Error(credentials)
		}
	}
}

func TestAViewerAndADistrustedCertificateAreToldAtOnce(t *testing.T) {
	viewer := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		writer.Write([]byte(`{"role":"viewer"}`))
	}))
	defer viewer.Close()
	if _, err := NewGantryClonner(viewer.URL, Credentials{Token: "t"}); err == nil || !strings.Contains(err.Error(), "operator") {
		t.Error(err)
	}
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	if _, err := NewGantryClonner(secure.URL, Credentials{Token: "t"}); err == nil || !strings.Contains(err.Error(), CACertificateEnv) {
		t.Error(err)
	}
}

func TestAUserLogsInOnceAndAgainWhenTheSessionEnded(t *testing.T) {
	logins, asked := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/v1/login" {
			logins++
			http.SetCookie(writer, &http.Cookie{Name: "session", Value: "s"})
			writer.Write([]byte(`{"csrf":"c"}`))
			return
		}
		asked++
		if cookie, err := request.Cookie("session"); err != nil || cookie.Value != "s" || request.Header.Get("X-Gantry-Csrf") != "c" {
			t.Error("cookie or csrf is missing")
		}
		if asked == 2 {
			writer.WriteHeader(http.StatusUnauthorized)
			writer.Write([]byte(refusal("not-logged-in")))
			return
		}
		writer.Write([]byte(`{"role":"operator","info":{"version":"1"}}`))
	}))
	defer server.Close()
	c, err := NewGantryClonner(server.URL, Credentials{Username: "u", Password: "a password"})
	if err != nil || logins != 2 || c.arrayInfo.Version != "1" {
		t.Error(err, logins, c.arrayInfo)
	}
}
