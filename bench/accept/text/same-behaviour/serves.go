// A program with the code of a web server in it, which answers itself a few times.
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
)

func main() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s\n", r.Method, r.URL.Path)
	})
	for round := 0; round < 5; round++ {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest("GET", fmt.Sprintf("/%d", round), nil))
		body, _ := io.ReadAll(recorder.Result().Body)
		fmt.Print(string(body))
	}
	os.Exit(9)
}
