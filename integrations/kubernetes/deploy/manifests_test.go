// Package deploy compares the plain manifests with the Helm chart, from which they are rendered.
package deploy

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the manifests anew")

const chart = "chart/gantry-csi"

// render renders the chart as Helm does: its templates use nothing but what Go's have.
func render(t *testing.T, change func(values map[string]any)) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	change(values)
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("templates %v: %v", files, err)
	}
	rendered := map[string]string{}
	for _, file := range files {
		parsed, err := template.New(filepath.Base(file)).Option("missingkey=error").ParseFiles(file)
		if err != nil {
			t.Fatal(err)
		}
		var output bytes.Buffer
		data := map[string]any{"Values": values, "Release": map[string]any{"Namespace": "gantry-csi"}}
		if err := parsed.Execute(&output, data); err != nil {
			t.Fatal(err)
		}
		rendered[filepath.Base(file)] = output.String()
	}
	return rendered
}

func TestManifestsAreTheChart(t *testing.T) {
	for name, text := range render(t, func(map[string]any) {}) {
		file := filepath.Join("manifests", name)
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		committed, err := os.ReadFile(file)
		if err != nil || string(committed) != text {
			t.Errorf("%s is not what the chart gives: 'go test ./deploy -update' writes it (%v)", file, err)
		}
	}
}

// TestZones looks for what the parts of a cluster change: the controller's list, a DaemonSet for each, and
// volumes that wait for a pod.
func TestZones(t *testing.T) {
	rendered := render(t, func(values map[string]any) {
		values["pool"] = "p"
		values["zones"] = []any{
			map[string]any{"name": "a", "portals": "192.0.2.1:3260,192.0.2.2:3260", "nodeSelector": map[string]any{"example.org/rack": "1"}},
			map[string]any{"name": "b", "portals": "192.0.2.3:3260", "nodeSelector": map[string]any{"example.org/rack": "2"}},
		}
	})
	for file, wanted := range map[string][]string{
		"controller.yaml": {"--zones=a=192.0.2.1:3260,192.0.2.2:3260;b=192.0.2.3:3260\n"},
		"driver.yaml":     {"WaitForFirstConsumer"},
		"node.yaml": {
			"name: gantry-csi-node-a\n", "--zone=a\n", "example.org/rack: \"1\"\n", "\n---\n",
			"name: gantry-csi-node-b\n", "--zone=b\n", "example.org/rack: \"2\"\n",
		},
	} {
		for _, text := range wanted {
			if !strings.Contains(rendered[file], text) {
				t.Errorf("%s has no %q:\n%s", file, text, rendered[file])
			}
		}
	}
}

// TestManifestsAreYAML reads every document, with all options on and with none.
func TestManifestsAreYAML(t *testing.T) {
	all := func(values map[string]any) {
		values["chapSecret"], values["portals"], values["pool"] = "gantry-csi-chap", "192.0.2.1:3260", "p"
		metadata := values["snapshotMetadata"].(map[string]any)
		metadata["tlsSecret"], metadata["caCert"] = "gantry-csi-snapshot-metadata", "LS0tLS0K"
	}
	zones := func(values map[string]any) {
		values["pool"] = "p"
		values["zones"] = []any{
			map[string]any{"name": "a", "portals": "192.0.2.1:3260,192.0.2.2:3260", "nodeSelector": map[string]any{"topology.kubernetes.io/zone": "a"}},
			map[string]any{"name": "b", "portals": "192.0.2.3:3260", "nodeSelector": map[string]any{"topology.kubernetes.io/zone": "b"}},
		}
	}
	kinds := map[string]int{}
	for _, change := range []func(map[string]any){all, func(map[string]any) {}, zones} {
		for name, text := range render(t, change) {
			decoder := yaml.NewDecoder(strings.NewReader(text))
			for {
				document := struct {
					APIVersion string `yaml:"apiVersion"`
					Kind       string
					Metadata   struct{ Name string }
				}{}
				err := decoder.Decode(&document)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil || document.APIVersion == "" || document.Kind == "" || document.Metadata.Name == "" {
					t.Fatalf("%s: %+v: %v", name, document, err)
				}
				kinds[document.Kind]++
			}
		}
	}
	for _, kind := range []string{"CSIDriver", "StorageClass", "VolumeSnapshotClass", "Deployment", "DaemonSet", "ClusterRole", "ServiceAccount",
		"SnapshotMetadataService", "Service"} {
		if kinds[kind] == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
}
