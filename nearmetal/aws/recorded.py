"""Answers of Amazon EC2 without an account: Moto's records of instance types, zones and images.

Subnets, buckets and images of the account are replaced by substitutes, which ParallelCluster's
validators find. Only `pcluster create-cluster --dryrun true` tests whether yours exist and whether
the account may launch the nodes.
"""

import contextlib
import copy
import os

import boto3
from moto import mock_aws
from pcluster.aws.aws_api import AWSApi
from pcluster.aws.common import Cache

#: Regions in which AWS has instances.
REGIONS = set(boto3.Session().get_available_regions("ec2"))
#: Architecture -> an image of Moto's.
IMAGES = {"x86_64": "ubuntu/images/hvm-ssd/*", "arm64": "al2022-ami-*"}
#: Key of the configuration -> function of the substitutes and its value, which gives the new value.
STAND_INS = {
    "SubnetId": lambda names, value: names["subnet"],
    "SubnetIds": lambda names, value: [names["subnet"]] * len(value),
    "CustomAmi": lambda names, value: names["image"],
}


class Unknown(ValueError):
    """An instance type that is not available: its name in the file, and the message."""


@contextlib.contextmanager
def account(region: str):
    """Within the block, AWS calls get recorded answers of a region, without real credentials."""
    settings = {
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
    }
    before = dict(os.environ)
    os.environ.update(settings)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        os.environ.pop(name, None)
    try:
        # Both keep answers of an earlier region.
        AWSApi.reset()
        Cache.clear_all()
        with mock_aws():
            yield boto3.client("ec2")
    finally:
        os.environ.clear()
        os.environ.update(before)


def instance_type(ec2, name: str) -> dict:
    """DescribeInstanceTypes of one type. Raises Unknown."""
    try:
        return ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"][0]
    except ec2.exceptions.ClientError:
        raise Unknown(
            name,
            f"{name} is not an instance type that AWS offers. Fix: name one of "
            "`aws ec2 describe-instance-types`",
        ) from None


def zones(ec2, names: list[str]) -> list[str]:
    """Availability zones that have all these instance types. Raises Unknown.

    A placement group and a subnet are in one zone.
    """
    common: set[str] = set()
    for number, name in enumerate(names):
        offers = ec2.describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [name]}]
        )["InstanceTypeOfferings"]
        here = {offer["Location"] for offer in offers}
        if number == 0:
            common = here
        common = common & here
        if not common:
            region, others = ec2.meta.region_name, ""
            if here:
                others = " that has the others too"
            raise Unknown(
                name,
                f"{name} is offered in no zone of {region}{others}. Fix: choose another Region, "
                "or another instance type here and in the system's file",
            )
    return sorted(common)


def stand_in(ec2, document: dict, zone: str) -> tuple[dict, str]:
    """The configuration with substitutes for names of the account, and the image of its nodes."""
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="172.31.240.0/20", AvailabilityZone=zone)[
        "Subnet"
    ]["SubnetId"]
    head = instance_type(ec2, document["HeadNode"]["InstanceType"])
    architecture = head["ProcessorInfo"]["SupportedArchitectures"][-1]  # i386 is before x86_64
    wanted = {"architecture": architecture, "name": IMAGES[architecture]}
    filters = [{"Name": name, "Values": [value]} for name, value in wanted.items()]
    image = ec2.describe_images(Filters=filters)["Images"][0]["ImageId"]
    names = {"subnet": subnet, "image": image}
    buckets: dict[str, list[str]] = {}

    def replaced(value, key=None):
        if key in STAND_INS and value:
            return STAND_INS[key](names, value)
        if isinstance(value, dict):
            return {inner: replaced(part, inner) for inner, part in value.items()}
        if isinstance(value, list):
            return list(map(replaced, value))
        if key == "Script" and str(value).startswith("s3://"):
            bucket, _, name = value.removeprefix("s3://").partition("/")
            buckets.setdefault(bucket, []).append(name)
        return copy.copy(value)

    document = replaced(document)
    s3, region = boto3.client("s3"), ec2.meta.region_name
    for bucket, objects in buckets.items():
        where = {}
        # S3 refuses the name of its default region.
        if region != "us-east-1":
            where["CreateBucketConfiguration"] = {"LocationConstraint": region}
        s3.create_bucket(Bucket=bucket, **where)
        for name in objects:
            s3.put_object(Bucket=bucket, Key=name, Body=b"")
    return document, image
