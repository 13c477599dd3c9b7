package main

import (
	crypto "crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

type Item struct {
	PetID, Quantity int64
	Status          string
}

type InventoryError struct{ Code, Message string }

func (failure *InventoryError) Error() string { return failure.Code + ": " + failure.Message }

func asError(content []byte) error {
	failure := &InventoryError{}
	if err := json.Unmarshal(content, failure); err != nil {
		return err
	}
	return failure
}

var (
	base   = os.Getenv("INVENTORY_URL") + "/inventory"
	client = http.Client{Timeout: 10 * time.Second}
	known  []Item
	etag   string
)

func call(method, url, body string, headers map[string]string) (*http.Response, []byte, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("INVENTORY_KEY"))
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response, content, err
}

func list() ([]Item, error) {
	response, content, err := call("GET", base, "", map[string]string{"If-None-Match": etag})
	if err != nil || response.StatusCode == http.StatusNotModified {
		return known, err
	}
	if response.StatusCode != http.StatusOK {
		return known, asError(content)
	}
	known, etag = nil, response.Header.Get("ETag")
	err = json.Unmarshal(content, &known)
	return known, err
}

/* setQuantity sets the quantity, once, of an item that is still as it was read. The history keeps the reason. */
func setQuantity(item Item, quantity int64, reason string) (Item, error) {
	url, body := fmt.Sprintf("%s/%d", base, item.PetID), fmt.Sprintf(`{"quantity": %d}`, quantity)
	headers := map[string]string{
		"Content-Type":    "application/json",
		"If-Match":        fmt.Sprintf(`"%s-%d"`, item.Status, item.Quantity),
		"Idempotency-Key": crypto.Text(),
		"Change-Reason":   reason,
	}
	var updated Item
	for attempt := 1; attempt <= 10; attempt++ {
		wait := min(100*time.Millisecond<<attempt, 10*time.Second)
		response, content, err := call("PATCH", url, body, headers)
		switch {
		case err != nil: // no response: the connection broke or took too long
		case response.StatusCode == 200:
			err = json.Unmarshal(content, &updated)
			return updated, err
		case response.StatusCode >= 500 || response.StatusCode == 408 || response.StatusCode == 429:
			seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
			wait = max(wait, time.Duration(seconds)*time.Second)
		default:
			return item, asError(content)
		}
		time.Sleep(wait + rand.N(wait))
	}
	return item, &InventoryError{"outcome_unknown", "the update may or may not have happened"}
}

func main() {
	items, err := list()
	if err == nil && len(items) > 0 {
		items[0], err = setQuantity(items[0], items[0].Quantity+1, "new-arrival")
	}
	if err != nil {
		panic(err)
	}
	fmt.Println(items[0])
}
