// SPDX-License-Identifier: Apache-2.0
//
// ask-e2e-call HOST:PORT SERVICE/METHOD [JSON]: one control call of a stranger's, any call with any content,
// as nobody else makes it, with the certificate in ASK_TLS, or in plain text without. Prints the reply as
// JSON; a refusal goes to standard error as "CODE: text", exit code 1.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "lib/abi/wire.h"
#include "lib/rpc/credentials.h"
#include "proto/agent.pb.h"
#include "proto/relay.pb.h"
#include "proto/switch.pb.h"

namespace {

namespace pb = google::protobuf;
using Message = std::unique_ptr<pb::Message>;

constexpr std::chrono::seconds kWait{20};

int complain(std::string_view what, std::string_view why) {
    std::fprintf(stderr, "%.*s: %.*s\n", static_cast<int>(what.size()), what.data(),
                 static_cast<int>(why.size()), why.data());
    return 1;
}

Message make(const pb::Descriptor* type) {
    return Message(pb::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

grpc::ByteBuffer to_buffer(const pb::Message& message) {
    const grpc::Slice slice(message.SerializeAsString());
    return {&slice, 1};
}

bool from_buffer(const grpc::ByteBuffer& buffer, pb::Message& message) {
    grpc::Slice slice;
    return buffer.DumpToSingleSlice(&slice).ok() &&
           message.ParseFromArray(slice.begin(), static_cast<int>(slice.size()));
}

grpc::Status call(const std::string& target, const std::string& method, const pb::Message& request,
                  pb::Message& reply, const ask::RpcCredentials& credentials) {
    grpc::GenericStub stub(grpc::CreateChannel(target, credentials.of_channel()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kWait);
    grpc::CompletionQueue queue;
    const auto reader = stub.PrepareUnaryCall(&context, "/" + method, to_buffer(request), &queue);
    reader->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    reader->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (status.ok() && !from_buffer(answer, reply)) {
        return {grpc::StatusCode::DATA_LOSS, "the reply is not what the method gives"};
    }
    return status;
}

std::string name_of(grpc::StatusCode code) {
    switch (code) {
        case grpc::StatusCode::INVALID_ARGUMENT:
            return "INVALID_ARGUMENT";
        case grpc::StatusCode::NOT_FOUND:
            return "NOT_FOUND";
        case grpc::StatusCode::ALREADY_EXISTS:
            return "ALREADY_EXISTS";
        case grpc::StatusCode::RESOURCE_EXHAUSTED:
            return "RESOURCE_EXHAUSTED";
        case grpc::StatusCode::FAILED_PRECONDITION:
            return "FAILED_PRECONDITION";
        case grpc::StatusCode::PERMISSION_DENIED:
            return "PERMISSION_DENIED";
        case grpc::StatusCode::ABORTED:
            return "ABORTED";
        case grpc::StatusCode::UNAVAILABLE:
            return "UNAVAILABLE";
        case grpc::StatusCode::DEADLINE_EXCEEDED:
            return "DEADLINE_EXCEEDED";
        default:
            return "code " + std::to_string(static_cast<int>(code));
    }
}

// Who says nothing of the packets that it speaks speaks today's.
void fill_wire_version(pb::Message& request) {
    const pb::FieldDescriptor* const field = request.GetDescriptor()->FindFieldByName("wire_version");
    if (field != nullptr && request.GetReflection()->GetUInt32(request, field) == 0) {
        request.GetReflection()->SetUInt32(&request, field, ASK_WIRE_VERSION);
    }
}

int run(const std::string& target, const std::string& method, const std::string& json) {
    // Linked in only if something of them is used.
    pb::LinkMessageReflection<ask::v1::JoinRequest>();
    pb::LinkMessageReflection<ask::v1::OpenTaskRequest>();
    pb::LinkMessageReflection<ask::v1::OpenRelayRequest>();
    std::string dotted = method;
    if (const auto slash = dotted.find('/'); slash != std::string::npos) {
        dotted[slash] = '.';
    }
    const pb::MethodDescriptor* const found = pb::DescriptorPool::generated_pool()->FindMethodByName(dotted);
    if (found == nullptr || found->server_streaming()) {
        return complain(method, "no such unary method; for example ask.v1.Agent/Join");
    }
    const Message request = make(found->input_type());
    if (const auto parsed = pb::util::JsonStringToMessage(json, request.get()); !parsed.ok()) {
        return complain("the request", parsed.ToString());
    }
    fill_wire_version(*request);
    const char* const tls = std::getenv("ASK_TLS");
    const auto credentials = ask::RpcCredentials::create(
        {.plain_text = tls == nullptr ? ask::PlainText::kEverywhere : ask::PlainText::kNowhere,
         .files = ask::TlsFiles::in(tls == nullptr ? "" : tls)});
    if (!credentials.ok()) {
        return complain("credentials", credentials.error().text());
    }
    const Message reply = make(found->output_type());
    if (const grpc::Status status = call(target, method, *request, *reply, **credentials); !status.ok()) {
        return complain(name_of(status.error_code()), status.error_message());
    }
    pb::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    options.always_print_primitive_fields = true;
    std::string text;
    if (const auto printed = pb::util::MessageToJsonString(*reply, &text, options); !printed.ok()) {
        return complain("the reply", printed.ToString());
    }
    std::puts(text.c_str());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3 && argc != 4) {
        std::fprintf(stderr, "usage: ask-e2e-call HOST:PORT SERVICE/METHOD [JSON]\n");
        return 2;
    }
    return run(argv[1], argv[2], argc == 4 ? argv[3] : "{}");
}
