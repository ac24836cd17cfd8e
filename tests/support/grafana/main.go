// Holds a dashboard against Grafana's own schema, by the types that Grafana makes from it: no unknown
// field, no missing one, and each value within its bounds. Run it by hand (docs/export.md).
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func check(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	plugins.RegisterDefaultPlugins() // options of each type of panel, and queries of each data source
	var found dashboard.Dashboard
	for _, err := range []error{found.UnmarshalJSONStrict(raw), found.Validate()} {
		if err != nil && err.Error() != "" { // an empty list of errors is none
			return err
		}
	}
	return nil
}

func main() {
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(os.Args[1], "is a dashboard by Grafana's schema")
}
